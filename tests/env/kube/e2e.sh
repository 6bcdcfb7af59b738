#!/usr/bin/env bash
# e2e.sh COMMAND... - runs a command (a test) with a cluster of its own: up before it, down after it.
#   KUBE_TESTBED_KUBECONFIG=FILE: with that cluster instead.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
(($#)) || { echo "which command? e.g. e2e.sh cargo test --test NAME" >&2; exit 2; }

tools=$("$here/tools.sh" kube cli) && eval "$tools"
run=$(mktemp -d "${TMPDIR:-/tmp}/multinic-kube.XXXXXX")
trap '"$here/down.sh" --dir "$run/bed" >&2; rm -rf "$run"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
env=$("$here/up.sh" --dir "$run/bed") && eval "$env"
"$@"
