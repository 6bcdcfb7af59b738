#!/usr/bin/env bash
# Tests of the Helm charts: lint, golden renders, refused values, Kubernetes' own schemas, upgrades.
#
#   run.sh                    UPDATE_GOLDEN=1 writes tests/charts/golden anew
#
# Helm: HELM and HELM3 name the programs; else those of tests/env/kube, else `helm` and `helm3` on PATH.
# Without Helm 3 the comparisons with it are skipped. Python's packages go to the user's cache.
set -euo pipefail
cd "$(dirname "$0")/../.."

tools=tests/env/kube/tools.sh
if [[ -z ${HELM:-} && -x $tools ]]; then
  lines=$("$tools" cli helm3) && eval "$lines"
fi
export HELM=${HELM:-helm} HELM3=${HELM3:-helm3}
command -v "$HELM" >/dev/null || { echo "needs helm on PATH, or HELM=…" >&2; exit 1; }

requirements=tests/charts/requirements.txt
venv=${XDG_CACHE_HOME:-$HOME/.cache}/multinic-operator/charts-$(sha256sum <"$requirements" | cut -c1-12)
if [[ ! -e $venv/ready ]]; then
  rm -rf "$venv"
  python3 -m venv "$venv"
  "$venv/bin/pip" install --quiet --disable-pip-version-check -r "$requirements"
  touch "$venv/ready"
fi
exec "$venv/bin/python" tests/charts/check.py "$@"
