#!/usr/bin/env python3
"""sbom.py BINARY - what the program is made of, as CycloneDX 1.5 JSON on the standard output.

Reads `cargo metadata --locked --filter-platform TARGET` on the standard input: only what a build of the binary takes
(no development or build dependencies, no other platforms), and the checksums of Cargo.lock in the current folder.
"""

import hashlib
import json
import sys
import tomllib
import uuid


def built_in(metadata):
    """The ids of the packages that are linked into the root package's binary."""
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    seen, todo = set(), [metadata["resolve"]["root"]]
    while todo:
        this = todo.pop()
        if this in seen:
            continue
        seen.add(this)
        for dep in nodes[this]["deps"]:
            if any(kind["kind"] is None for kind in dep["dep_kinds"]):
                todo.append(dep["pkg"])
    return seen


def component(package, checksums):
    name, version = package["name"], package["version"]
    purl = f"pkg:cargo/{name}@{version}"
    found = {"type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl}
    if package.get("license"):
        # An older spelling of OR.
        found["licenses"] = [{"expression": package["license"].replace("/", " OR ")}]
    if (name, version) in checksums:
        found["hashes"] = [{"alg": "SHA-256", "content": checksums[name, version]}]
    return found


def main(binary):
    metadata = json.load(sys.stdin)
    with open("Cargo.lock", "rb") as file:
        locked = tomllib.load(file)["package"]
    checksums = {(one["name"], one["version"]): one["checksum"] for one in locked if "checksum" in one}
    linked = built_in(metadata)
    packages = sorted((p for p in metadata["packages"] if p["id"] in linked), key=lambda p: (p["name"], p["version"]))
    root = next(p for p in packages if p["id"] == metadata["resolve"]["root"])
    with open(binary, "rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    sbom = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        # The same program has the same number.
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_OID, digest)}",
        "version": 1,
        "metadata": {
            "component": {
                **component(root, checksums),
                "type": "application",
                "hashes": [{"alg": "SHA-256", "content": digest}],
            }
        },
        "components": [component(p, checksums) for p in packages if p is not root],
    }
    json.dump(sbom, sys.stdout, indent=1, sort_keys=True)
    print()


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
