#!/usr/bin/env bash
# e2e.sh COMMAND... - runs a command (a test) with an sshd of its own on 127.0.0.1: own host keys, own user key, a
# free port; nothing of the machine's own sshd is touched. The command finds it by
#   SSH_TESTBED_PORT, SSH_TESTBED_USER, SSH_TESTBED_KEY (private key), SSH_TESTBED_KNOWN_HOSTS
#   Needs openssh-server and openssh-client; as root on Debian it installs them (and starts no service).
set -euo pipefail
(($#)) || { echo "which command? e.g. e2e.sh cargo test --test e2e_ssh" >&2; exit 2; }
say() { printf '[ssh] %s\n' "$*" >&2; }

find_sshd() { PATH=$PATH:/usr/sbin:/usr/local/sbin command -v sshd; }
if ! find_sshd >/dev/null || ! command -v ssh-keygen >/dev/null; then
  [[ $(id -u) == 0 ]] && command -v apt-get >/dev/null || { say "needs sshd and ssh-keygen (openssh-server, openssh-client)"; exit 1; }
  say "apt-get install openssh-server"
  # RUNLEVEL=1: its package starts no service.
  install=(env DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 apt-get -q install -y --no-install-recommends openssh-server openssh-client)
  "${install[@]}" >/dev/null 2>&1 || { apt-get -q update >/dev/null 2>&1; "${install[@]}" >/dev/null; }
fi
sshd=$(find_sshd)

dir=$(mktemp -d)
chmod 700 "$dir"
for kind in ed25519 ecdsa; do ssh-keygen -q -t $kind -N "" -f "$dir/host_$kind"; done
ssh-keygen -q -t ed25519 -N "" -f "$dir/user"
cp "$dir/user.pub" "$dir/authorized_keys"
# As root, sshd gives up its rights into this folder.
[[ $(id -u) != 0 ]] || mkdir -p /run/sshd
port=$(python3 -c 'import socket; s=socket.socket(); s.bind(("127.0.0.1",0)); print(s.getsockname()[1])')
cat >"$dir/sshd_config" <<CONFIG
ListenAddress 127.0.0.1:$port
HostKey $dir/host_ed25519
HostKey $dir/host_ecdsa
PidFile none
AuthorizedKeysFile $dir/authorized_keys
# The temporary folder belongs to nobody's home.
StrictModes no
UsePAM no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
LogLevel VERBOSE
CONFIG
"$sshd" -D -e -f "$dir/sshd_config" 2>"$dir/log" &
pid=$!
finish() {
  local rc=$?
  trap - EXIT
  [[ $rc == 0 ]] || tail -n 20 "$dir/log" >&2
  kill "$pid" 2>/dev/null || true
  wait "$pid" 2>/dev/null || true
  rm -rf "$dir"
  exit $rc
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
for ((i = 0; ; i++)); do
  (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null && break
  kill -0 "$pid" 2>/dev/null && ((i < 200)) || { say "sshd does not start"; exit 1; }
  sleep 0.05
done
# Only the ECDSA key is on record: a client that takes the first key it is offered would not know this machine.
sed "s/^/[127.0.0.1]:$port /" "$dir/host_ecdsa.pub" >"$dir/known_hosts"
export SSH_TESTBED_PORT=$port SSH_TESTBED_USER=$(id -un) SSH_TESTBED_KEY=$dir/user SSH_TESTBED_KNOWN_HOSTS=$dir/known_hosts
say "sshd on 127.0.0.1:$port"
"$@"
