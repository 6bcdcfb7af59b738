#!/usr/bin/env bash
# image.sh IMAGE DIST - builds the image from DIST/rootfs with the engine that is there (ENGINE=… to choose).
set -euo pipefail
image=$1 dist=$2
here=$(cd "$(dirname "$0")/.." && pwd)

works() { # a client without its daemon is no engine
  command -v "$1" >/dev/null && case $1 in buildah) true ;; *) "$1" info >/dev/null 2>&1 ;; esac
}
engine=${ENGINE:-}
for candidate in docker podman buildah; do
  [[ -z $engine ]] && works "$candidate" && engine=$candidate
done
[[ -n $engine ]] || { echo "neither docker nor podman nor buildah works here" >&2; exit 1; }
echo "building $image with $engine"
"$engine" build --file "$here/Dockerfile" --tag "$image" "$dist/rootfs"
