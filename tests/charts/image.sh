#!/usr/bin/env bash
# The image's files with a stand-in for the binary: a static program that says by which name and as whom it was
# called. It is run in that root by chroot (as root only), and the image is built where an engine works.
# The same with the real one where `make static` has made it (REAL=FILE: another).
set -uo pipefail
cd "$(dirname "$0")/../.."
work=$(mktemp -d)
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT

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
refused() { ! "$@" || { echo "not refused"; return 1; }; }

cat >"$work/name.c" <<'C'
#include <stdio.h>
#include <unistd.h>
int main(int argc, char **argv) {
  FILE *file = fopen("/var/lib/multinic-operator/inventory.json", "w");
  printf("%s uid=%d gid=%d ca=%d inventory=%d\n", argv[0], getuid(), getgid(),
         access("/etc/ssl/certs/ca-certificates.crt", R_OK), file ? 0 : -1);
  return 0;
}
C
cc -static -o "$work/static" "$work/name.c" || exit 1
cc -o "$work/dynamic" "$work/name.c" || exit 1
echo "-----BEGIN CERTIFICATE-----" >"$work/ca.crt"

make_root() { make --silent rootfs DIST="$work/dist" BINARY="$1" CA_BUNDLE="$2"; }
check "a dynamic binary is refused" refused make_root "$work/dynamic" "$work/ca.crt"
check "a binary that is not there is refused" refused make_root "$work/none" "$work/ca.crt"
check "certificates that are not there are refused" refused make_root "$work/static" "$work/none"
check "the files are laid out" make_root "$work/static" "$work/ca.crt"
root=$work/dist/rootfs
check "there is nothing else" equal "$(cd "$root" && find . -not -type d | sort | tr '\n' ' ')" \
  "./etc/group ./etc/passwd ./etc/ssl/certs/ca-certificates.crt ./manager ./multinic-operator ./viola-test-api "
if [[ $(id -u) == 0 ]]; then
  for name in multinic-operator manager viola-test-api; do
    check "/$name runs in it, not as root" equal "$(chroot --userspec 65532:65532 "$root" "/$name")" \
      "/$name uid=65532 gid=65532 ca=0 inventory=0"
  done
  rm -f "$root/var/lib/multinic-operator/inventory.json"
else
  skip "running it: chroot needs root"
fi

engine=""
for candidate in docker podman buildah; do
  [[ -z $engine ]] && command -v $candidate >/dev/null && { [[ $candidate == buildah ]] || $candidate info >/dev/null 2>&1; } && engine=$candidate
done
if [[ -z $engine ]]; then
  skip "building the image: no engine works here"
else
  # Not through `make image`, which would lay out the files of the real binary again.
  check "the image is built by $engine" env ENGINE=$engine deploy/image.sh multinic-operator:standin "$work/dist"
  inspect=("$engine" inspect --type image --format '{{.OCIv1.Config.User}} {{.OCIv1.Config.Entrypoint}}')
  [[ $engine == buildah ]] || inspect=("$engine" inspect --type image --format '{{.Config.User}} {{.Config.Entrypoint}}')
  check "its user and its program" equal "$("${inspect[@]}" multinic-operator:standin)" "65532:65532 [/multinic-operator]"
  "$engine" rmi multinic-operator:standin >/dev/null 2>&1
fi

# --- the real binary
real=${REAL:-dist/static/multinic-operator}
in_real() { chroot --userspec 65532:65532 "$work/real/rootfs" "$@"; }
serves() { # serves COMMAND... - it is healthy at 127.0.0.1:PORT, a free one, and ends in order as Kubernetes ends it
  local port pid code=0
  port=$(python3 -c 'import socket; s=socket.socket(); s.bind(("127.0.0.1",0)); print(s.getsockname()[1])')
  (export LISTEN_ADDR="127.0.0.1:$port"; exec chroot --userspec 65532:65532 "$work/real/rootfs" "${@//PORT/$port}") &
  pid=$!
  for ((i = 0; i < 300; i++)); do
    ! curl -sf --noproxy '*' "http://127.0.0.1:$port/healthz" >/dev/null || break
    sleep 0.1
  done
  kill -TERM "$pid" || true
  wait "$pid" || code=$?
  ((i < 300)) || { echo "it is never healthy"; return 1; }
  equal "$code" 0
}
if [[ ! -f $real ]]; then
  skip "the real binary: 'make static' makes it"
elif [[ $(id -u) != 0 ]]; then
  skip "the real binary: chroot needs root"
else
  check "the real binary's files are laid out" \
    make --silent rootfs DIST="$work/real" BINARY="$(realpath "$real")" CA_BUNDLE="$work/ca.crt"
  # Every container has these (OCI runtime specification, default devices); an empty root has not.
  mkdir "$work/real/rootfs/dev"
  mknod -m 0444 "$work/real/rootfs/dev/random" c 1 8 && mknod -m 0444 "$work/real/rootfs/dev/urandom" c 1 9
  version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -1)
  for name in multinic-operator manager; do
    check "/$name is the real one" equal "$(in_real "/$name" --version)" "multinic-operator $version"
  done
  in_real /multinic-operator crd >"$work/crd.yaml"
  check "its CRD is the chart's" cmp "$work/crd.yaml" charts/multinic-operator/crds/openstackconfigs.yaml
  check "/manager serves, with flags of the previous operator" serves /manager --zap-log-level=info \
    --metrics-secure=false --metrics-bind-address=0 --health-probe-bind-address=127.0.0.1:PORT \
    --inventory-addr=127.0.0.1:0 --config-dir=/etc
  check "/viola-test-api serves" serves /viola-test-api
fi

printf '\n%d passed, %d failed, %d skipped\n' "$passed" "$failed" "$skipped"
((failed == 0))
