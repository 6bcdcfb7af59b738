#!/usr/bin/env bash
# e2e.sh COMMAND... - runs a command (a test) with a cluster of its own: up before it, down after it.
#   With KUBE_TESTBED_KUBECONFIG it is that cluster, and tests that need a faulty API server are left out.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
(($#)) || { echo "which command? e.g. e2e.sh cargo test --test NAME" >&2; exit 2; }

tools=$("$here/tools.sh" kube cli)
eval "$tools"
unset KUBE_TESTBED_DIR
env=$("$here/up.sh" --audit)
eval "$env"
finish() {
  local rc=$?
  trap - EXIT
  [[ $rc == 0 ]] || tail -n 20 "${KUBE_TESTBED_DIR:-/nonexistent}"/log/kube-apiserver.log >&2 2>/dev/null || true
  [[ -z ${KUBE_TESTBED_DIR:-} ]] || "$here/down.sh"
  exit $rc
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
"$@"
