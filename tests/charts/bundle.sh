#!/usr/bin/env bash
# `make bundle` with a stand-in for the binary (BINARY=FILE: that one instead): the archive is unpacked elsewhere and
# must do alone, and two builds must be one. The image's files are run by chroot (as root only); where skopeo or an
# engine is there, it must take the image.
set -uo pipefail
cd "$(dirname "$0")/../.."
sources=$PWD
work=$(mktemp -d)
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT
tools=tests/env/kube/tools.sh
if [[ -z ${HELM:-} && -x $tools ]]; then lines=$("$tools" cli) && eval "$lines"; fi
export HELM=${HELM:-helm}

passed=0 failed=0 skipped=0
check() {
  local what=$1 said
  shift
  if said=$("$@" 2>&1); then passed=$((passed + 1)) && echo "ok   $what"; else
    failed=$((failed + 1)) && printf 'FAIL %s\n     %s\n' "$what" "$said"
  fi
}
skip() { skipped=$((skipped + 1)) && echo "skip $1"; }
equal() { [[ $1 == "$2" ]] || { echo "expected '$2', found '$1'"; return 1; }; }
lacks() { ! grep -rlF -- "$1" "$2" || { echo "holds '$1'"; return 1; }; }

if [[ -z ${BINARY:-} ]]; then
  printf '#include <stdio.h>\nint main(int c, char **v) { printf("%%s %%s\\n", v[0], c > 1 ? v[1] : ""); return 0; }\n' \
    >"$work/name.c"
  cc -static -o "$work/static" "$work/name.c" || exit 1
  export BINARY=$work/static
fi
echo "-----BEGIN CERTIFICATE-----" >"$work/ca.crt"
image=registry.example.com:5000/team/multinic-operator:7.8.9
make_bundle() { make --silent bundle DIST="$1" BINARY="$BINARY" CA_BUNDLE="$work/ca.crt" IMG=$image; }

check "the bundle is packed" make_bundle "$work/dist"
archive=$(cd "$work/dist" && ls multinic-operator-*.tar.gz)
mkdir "$work/alone"
cp "$work/dist/$archive" "$work/dist/$archive.sha256" "$work/alone/"
cd "$work/alone" || exit 1
check "the checksum beside it" sha256sum --check --quiet "$archive.sha256"
check "it unpacks" tar xf "$archive"
cd "${archive%.tar.gz}" || exit 1
check "the checksum of every file" sha256sum --check --quiet --strict SHA256SUMS
check "no file is without one" equal "$(find . -type f ! -name SHA256SUMS | wc -l)" "$(wc -l <SHA256SUMS)"
check "it knows nothing of where it was made" lacks "$work" .
check "nor of where the sources were" lacks "$sources/" .

set_image=(--set-string "image.repository=${image%:*}" --set-string "image.tag=${image##*:}")
for chart in charts/*.tgz; do
  check "$chart renders the image of the list" equal \
    "$("$HELM" template release "$chart" "${set_image[@]}" | sed -n 's/^ *image: "\(.*\)"$/\1/p' | sort -u)" "$(cat images.txt)"
done
check "so do the plain manifests" equal "$(sed -n 's/^ *image: "\(.*\)"$/\1/p' manifests/install.yaml)" "$(cat images.txt)"
check "the manifests bring the CRD" grep -q 'name: openstackconfigs\.' manifests/kustomize/crds.yaml
check "the guide's links lead somewhere in the bundle" python3 - <<'PY'
import pathlib, re, sys
gone = [
    f"{page}: {link}"
    for page in pathlib.Path("docs").glob("airgap*.md")
    for link in re.findall(r"\]\(([^)#]+)", page.read_text())
    if not (page.parent / link).exists()
]
sys.exit("\n".join(gone) or 0)
PY

mkdir "$work/image" && tar xf images/multinic-operator.tar -C "$work/image"
check "the image's parts have the digests that name them" python3 - "$work/image" "$image" <<'PY'
import gzip, hashlib, json, pathlib, sys
root, image = pathlib.Path(sys.argv[1]), sys.argv[2]
read = lambda name: json.loads((root / name).read_text())
def blob(digest, size=None):
    data = (root / "blobs/sha256" / digest.removeprefix("sha256:")).read_bytes()
    assert "sha256:" + hashlib.sha256(data).hexdigest() == digest, digest
    assert size in (None, len(data)), digest
    return data
[listed] = read("index.json")["manifests"]
assert listed["annotations"]["io.containerd.image.name"] == image, listed
manifest = json.loads(blob(listed["digest"], listed["size"]))
config = json.loads(blob(manifest["config"]["digest"], manifest["config"]["size"]))
[layer] = manifest["layers"]
plain = gzip.decompress(blob(layer["digest"], layer["size"]))
assert config["rootfs"]["diff_ids"] == ["sha256:" + hashlib.sha256(plain).hexdigest()]
assert config["config"]["User"] == "65532:65532" and config["config"]["Entrypoint"] == ["/multinic-operator"]
[saved] = read("manifest.json")
assert saved["RepoTags"] == [image] and saved["Config"].endswith(manifest["config"]["digest"][7:])
assert read("oci-layout") == {"imageLayoutVersion": "1.0.0"}
(root / "layer.tar").write_bytes(plain)
PY
mkdir "$work/root"
check "its files unpack" tar xf "$work/image/layer.tar" -C "$work/root"
check "whose folder is writable for its user only" equal \
  "$(tar tvf "$work/image/layer.tar" --numeric-owner var/lib/multinic-operator | cut -c1-22)" "drwxrwx--- 65532/65532"
if [[ $(id -u) == 0 ]]; then
  for name in multinic-operator manager; do
    check "/$name runs from it, not as root" chroot --userspec 65532:65532 "$work/root" "/$name" --version
  done
else
  skip "running it: chroot needs root"
fi
check "the SBOM names the program and what it is made of" python3 - "$work/root/multinic-operator" <<'PY'
import hashlib, json, pathlib, sys
sbom = json.loads(pathlib.Path("sbom.cdx.json").read_text())
program = sbom["metadata"]["component"]
assert program["name"] == "multinic-operator"
assert program["hashes"][0]["content"] == hashlib.sha256(pathlib.Path(sys.argv[1]).read_bytes()).hexdigest()
parts = {part["name"]: part for part in sbom["components"]}
assert {"ractor", "tokio", "kube", "axum", "reqwest", "multinic-actors"} <= parts.keys(), sorted(parts)
assert not {"proptest", "insta"} & parts.keys(), "what only tests need is no part of it"
lacking = [name for name, part in parts.items() if not part.get("licenses")]
assert not lacking, lacking
without = [name for name, part in parts.items() if "hashes" not in part and name != "multinic-actors"]
assert not without, without
PY

taken=""
if command -v skopeo >/dev/null; then
  check "skopeo takes it as an OCI archive" skopeo inspect --raw "oci-archive:images/multinic-operator.tar"
  check "and as a docker archive" skopeo inspect "docker-archive:images/multinic-operator.tar"
  taken=yes
fi
if command -v buildah >/dev/null; then
  check "buildah takes it" buildah --storage-driver vfs --root "$work/store" --runroot "$work/run" pull --quiet \
    "oci-archive:images/multinic-operator.tar"
  taken=yes
fi
[[ -n $taken ]] || skip "loading the image: neither skopeo nor buildah is here"

cd "$sources" || exit 1
check "it is packed once more" make_bundle "$work/again"
check "and is the same, byte for byte" cmp "$work/dist/$archive" "$work/again/$archive"

printf '\n%d passed, %d failed, %d skipped\n' "$passed" "$failed" "$skipped"
((failed == 0))
