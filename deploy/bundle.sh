#!/usr/bin/env bash
# bundle.sh IMAGE DIST - packs all that an installation without internet needs, from DIST/rootfs, into
# DIST/multinic-operator-VERSION-ARCH.tar.gz: image, charts, plain manifests, guide, SBOM, checksums.
set -euo pipefail
image=$1 dist=$2
here=$(cd "$(dirname "$0")/.." && pwd)
mkdir -p "$dist" && dist=$(cd "$dist" && pwd)
cd "$here"

die() { echo "$*" >&2; exit 1; }
command -v python3 >/dev/null || die "needs python3"
command -v "${HELM:-helm}" >/dev/null || die "needs helm on PATH, or HELM=…"
[[ -x $dist/rootfs/multinic-operator ]] || die "$dist/rootfs is not there: run 'make rootfs'"
[[ ${image##*/} == *:* ]] || die "$image: an image in an archive needs a tag"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/images" "$work/charts" "$work/docs"

python3 deploy/image_archive.py "$dist/rootfs" "$image" "$work/images/multinic-operator.tar"
echo "$image" >"$work/images.txt"
for chart in multinic-operator viola-test-api; do
  "${HELM:-helm}" package "charts/$chart" --destination "$work/charts" >/dev/null
done
deploy/manifests.sh "$image" "${NAMESPACE:-multinic-operator-system}" "$work/manifests" >/dev/null
cp docs/airgap.md docs/airgap.ko.md docs/install.md docs/install.ko.md docs/upgrade.md docs/upgrade.ko.md "$work/docs/"
cp -r docs/examples "$work/docs/"
cp LICENSE CHANGELOG.md "$work/"
machine=$(python3 -c 'import sys; sys.path.insert(0, "deploy"); import image_archive as i; print(i.architecture(sys.argv[1]))' \
  "$dist/rootfs/multinic-operator")
case $machine in amd64) target=x86_64 ;; arm64) target=aarch64 ;; *) target=$machine ;; esac
cargo metadata --locked --format-version 1 --filter-platform "$target-unknown-linux-musl" |
  python3 deploy/sbom.py "$dist/rootfs/multinic-operator" >"$work/sbom.cdx.json"
(cd "$work" && find . -type f ! -name SHA256SUMS -printf '%P\n' | LC_ALL=C sort | xargs -d '\n' sha256sum >SHA256SUMS)

version=$(sed -n 's/^version: //p' charts/multinic-operator/Chart.yaml)
name=multinic-operator-$version-$machine
# The time that files of an archive must have; it tells nothing.
tar --create --file - --directory "$work" --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner \
  --transform "s,^\.,$name," . | gzip --no-name >"$dist/$name.tar.gz"
(cd "$dist" && sha256sum "$name.tar.gz" >"$name.tar.gz.sha256")
echo "wrote $dist/$name.tar.gz"
