#!/usr/bin/env bash
# e2e.sh COMMAND... - runs a command (a test) with a cluster of its own: up before it, down after it.
#   KUBE_TESTBED_WORKLOAD=1: with a second one, WORKLOAD_KUBECONFIG (faults: WORKLOAD_TESTBED_DIR).
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
  [[ -z ${WORKLOAD_TESTBED_DIR:-} ]] || "$here/down.sh" --dir "$WORKLOAD_TESTBED_DIR"
  [[ -z ${KUBE_TESTBED_DIR:-} ]] || "$here/down.sh"
  exit $rc
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
if [[ ${KUBE_TESTBED_WORKLOAD:-} == 1 ]]; then
  # On a cluster of the user's own it is the same one.
  workload=$(unset KUBE_TESTBED_DIR; "$here/up.sh" --no-controller-manager)
  WORKLOAD_KUBECONFIG=$(eval "$workload"; echo "$KUBECONFIG")
  WORKLOAD_TESTBED_DIR=$(unset KUBE_TESTBED_DIR; eval "$workload"; echo "${KUBE_TESTBED_DIR:-}")
  export WORKLOAD_KUBECONFIG WORKLOAD_TESTBED_DIR
fi
"$@"
