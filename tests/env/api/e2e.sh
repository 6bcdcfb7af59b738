#!/usr/bin/env bash
# e2e.sh BINARY [SECONDS] - both servers against their own documents: schemathesis makes requests from them, good and
# bad ones, and checks every answer: no code, type or body that is not documented, no 5xx from a healthy server.
#   SECONDS: how long each server is tried beside the fixed cases (20). Everything is on 127.0.0.1.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
binary=${1:?which binary} seconds=${2:-20}

requirements=$here/requirements.txt
venv=${XDG_CACHE_HOME:-$HOME/.cache}/multinic-operator/api-$(sha256sum <"$requirements" | cut -c1-12)
if [[ ! -e $venv/ready ]]; then
  rm -rf "$venv"
  python3 -m venv "$venv"
  "$venv/bin/pip" install --quiet --disable-pip-version-check -r "$requirements"
  touch "$venv/ready"
fi

dir=$(mktemp -d)
pids=()
finish() {
  local rc=$?
  trap - EXIT
  [[ $rc == 0 ]] || tail -n 20 "$dir"/*.log >&2
  for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; wait "$pid" 2>/dev/null || true; done
  rm -rf "$dir"
  exit $rc
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

free_ports() { python3 - "$1" <<'PY'
import socket, sys
sockets = [socket.socket() for _ in range(int(sys.argv[1]))]
for s in sockets: s.bind(("127.0.0.1", 0))
print(*[s.getsockname()[1] for s in sockets])
PY
}
read -r cluster viola operator <<<"$(free_ports 3)"

until_up() { # until_up URL PID
  for ((i = 0; i < 600; i++)); do
    curl --noproxy '*' -sf -o /dev/null "$1" && return
    kill -0 "$2" 2>/dev/null || break
    sleep 0.1
  done
  echo "$1 does not answer" >&2
  return 1
}

python3 "$here/apiserver.py" "$cluster" >"$dir/apiserver.log" 2>&1 & pids+=($!)
LISTEN_ADDR=127.0.0.1:$viola KUBE_API_SERVER=http://127.0.0.1:$cluster \
  "$binary" viola-test-api >"$dir/viola.log" 2>&1 & pids+=($!)
until_up "http://127.0.0.1:$viola/healthz" "${pids[-1]}"
# With something to tell: a simulated cloud and two configs.
"$binary" demo --inventory-addr="127.0.0.1:$operator" --metrics-bind-address=0 --health-probe-bind-address=0 \
  >"$dir/operator.log" 2>&1 & pids+=($!)
until_up "http://127.0.0.1:$operator/v1/interfaces/providers" "${pids[-1]}"

try() { # try PORT [ARGUMENT...]
  local url=http://127.0.0.1:$1
  shift
  (cd "$dir" && NO_PROXY=127.0.0.1 HYPOTHESIS_STORAGE_DIRECTORY="$dir/hypothesis" "$venv/bin/schemathesis" run \
    "$url/openapi.json" --url "$url" --seed 1 --workers 2 --request-timeout 30 --phases examples,coverage,fuzzing \
    --checks not_a_server_error,status_code_conformance,content_type_conformance,response_headers_conformance,response_schema_conformance,unsupported_method \
    --warnings off --max-time "$seconds" "$@")
}
echo "== viola-test-api"
try "$viola"
echo "== multinic-operator"
# What it sends to Viola is not a route of its own.
try "$operator" --exclude-path /v1/k8s/multinic/node-configs
