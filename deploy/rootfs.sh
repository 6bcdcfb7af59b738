#!/usr/bin/env bash
# rootfs.sh BINARY CA_BUNDLE FOLDER - lays out the image's files: one static binary under its names, the certificates
# that it trusts, and a user to run as.
set -euo pipefail
binary=$1 ca=$2 root=$3

die() { echo "$*" >&2; exit 1; }
[[ -f $binary ]] || die "$binary is not there: run 'make static', or say BINARY=…"
[[ -f $ca ]] || die "$ca is not there: install ca-certificates, or say CA_BUNDLE=…"
# Bytes 0-3 are ELF's; a dynamic program names its loader, which an empty image does not have.
[[ $(head -c4 "$binary") == $'\x7fELF' ]] || die "$binary is no Linux program"
if command -v readelf >/dev/null && readelf --program-headers "$binary" | grep -q INTERP; then
  die "$binary is not static: an image without a loader cannot run it"
fi

rm -rf "$root"
mkdir -p "$root/etc/ssl/certs" "$root/var/lib/multinic-operator"
install -m 0755 "$binary" "$root/multinic-operator"
# The previous image's name of it, and the one by which it becomes the Viola test API.
ln -s multinic-operator "$root/manager"
ln -s multinic-operator "$root/viola-test-api"
install -m 0644 "$ca" "$root/etc/ssl/certs/ca-certificates.crt"
echo 'nonroot:x:65532:65532:nonroot:/:/multinic-operator' >"$root/etc/passwd"
echo 'nonroot:x:65532:' >"$root/etc/group"
chmod 0755 "$root" "$root"/etc "$root"/etc/ssl "$root"/etc/ssl/certs "$root"/var "$root"/var/lib
# Without a volume the inventory lies here.
chmod 0770 "$root/var/lib/multinic-operator"
[[ $(id -u) != 0 ]] || chown 65532:65532 "$root/var/lib/multinic-operator"
