#!/bin/bash
# scenario.sh - run scenario.py (see its head for the commands) against the cloud that up.sh started.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
[ -s "$OSBED_STATE/openrc" ] || die "no cloud in $OSBED_STATE: run up.sh first, with the same OSBED_STATE"
. "$OSBED_STATE/openrc"
export OSBED_COMPUTE_HOST PYTHONDONTWRITEBYTECODE=1
exec "$OSBED_VENV/bin/python" "$OSBED_DIR/scenario.py" "$@"
