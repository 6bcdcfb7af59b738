#!/usr/bin/env python3
"""image_archive.py ROOTFS IMAGE ARCHIVE - packs the image's files into an archive that `docker load`, `podman load`,
`nerdctl load` and `ctr images import` take, without any of them.

The archive is an OCI image layout (image-spec 1.1) that also has the manifest.json of `docker save`. The same files
make the same bytes: nothing in it tells when or where it was made.
"""

import gzip
import hashlib
import io
import json
import os
import stat
import sys
import tarfile

# ELF header, offset 18: e_machine, two bytes in the byte order that offset 5 tells.
ARCHITECTURES = {62: "amd64", 183: "arm64", 243: "riscv64", 22: "s390x", 21: "ppc64le"}
# Who the image's program runs as, and who owns what it may write: Dockerfile and rootfs.sh say the same.
USER = 65532
OWNED = "var/lib/multinic-operator"


def architecture(binary):
    with open(binary, "rb") as file:
        head = file.read(20)
    order = "little" if head[5] == 1 else "big"
    machine = int.from_bytes(head[18:20], order)
    if machine not in ARCHITECTURES:
        sys.exit(f"{binary} is for a machine (ELF {machine}) that no image is made for")
    return ARCHITECTURES[machine]


def entry(name, path):
    info = tarfile.TarInfo(name)
    found = os.lstat(path)
    info.mode = stat.S_IMODE(found.st_mode)
    info.uid = info.gid = USER if name == OWNED else 0
    if stat.S_ISDIR(found.st_mode):
        info.type = tarfile.DIRTYPE
    elif stat.S_ISLNK(found.st_mode):
        info.type, info.linkname, info.mode = tarfile.SYMTYPE, os.readlink(path), 0o777
    else:
        info.size = found.st_size
    return info


def layer(rootfs):
    """The files as one tar, in order of their names."""
    names = sorted(
        os.path.relpath(os.path.join(folder, name), rootfs)
        for folder, folders, files in os.walk(rootfs)
        for name in folders + files
    )
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name in names:
            info = entry(name, os.path.join(rootfs, name))
            if info.isreg():
                with open(os.path.join(rootfs, name), "rb") as file:
                    tar.addfile(info, file)
            else:
                tar.addfile(info)
    return out.getvalue()


def digest(data):
    return hashlib.sha256(data).hexdigest()


def pack(rootfs, image, archive):
    plain = layer(rootfs)
    packed = gzip.compress(plain, compresslevel=9, mtime=0)
    machine = architecture(os.path.join(rootfs, "multinic-operator"))
    config = json.dumps(
        {
            "architecture": machine,
            "os": "linux",
            "config": {
                "User": f"{USER}:{USER}",
                "Entrypoint": ["/multinic-operator"],
                "ExposedPorts": {"18081/tcp": {}, "8081/tcp": {}, "8080/tcp": {}},
            },
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest(plain)}"]},
            "history": [{"created_by": "COPY . /"}],
        },
        sort_keys=True,
    ).encode()
    kind = "application/vnd.oci.image"

    def described(media, data, **more):
        return {"mediaType": f"{kind}.{media}", "digest": f"sha256:{digest(data)}", "size": len(data), **more}

    manifest = json.dumps(
        {
            "schemaVersion": 2,
            "mediaType": f"{kind}.manifest.v1+json",
            "config": described("config.v1+json", config),
            "layers": [described("layer.v1.tar+gzip", packed)],
        },
        sort_keys=True,
    ).encode()
    names = {"io.containerd.image.name": image, "org.opencontainers.image.ref.name": image.rsplit(":", 1)[-1]}
    place = {"architecture": machine, "os": "linux"}
    index = {
        "schemaVersion": 2,
        "mediaType": f"{kind}.index.v1+json",
        "manifests": [described("manifest.v1+json", manifest, platform=place, annotations=names)],
    }
    blob = "blobs/sha256/"
    docker = [{
        "Config": blob + digest(config),
        "RepoTags": [image],
        "Layers": [blob + digest(packed)],
    }]
    files = {
        "oci-layout": b'{"imageLayoutVersion":"1.0.0"}',
        "index.json": json.dumps(index, sort_keys=True).encode(),
        "manifest.json": json.dumps(docker, sort_keys=True).encode(),
        **{blob + digest(data): data for data in (config, manifest, packed)},
    }
    with tarfile.open(archive, "w", format=tarfile.PAX_FORMAT) as tar:
        for folder in ("blobs", "blobs/sha256"):
            info = tarfile.TarInfo(folder)
            info.type, info.mode = tarfile.DIRTYPE, 0o755
            tar.addfile(info)
        for name in sorted(files):
            info = tarfile.TarInfo(name)
            info.size, info.mode = len(files[name]), 0o644
            tar.addfile(info, io.BytesIO(files[name]))
    print(f"wrote {archive}: {image}, {machine}, sha256:{digest(manifest)}")


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    pack(*sys.argv[1:])
