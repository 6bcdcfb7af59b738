#!/bin/bash
# e2e.sh COMMAND... - run a command (a test) with a cloud of its own: up before it, down after it.
#   The cloud is another one than up.sh's default: own state, own ports, and services set as hard on a client as real
#   ones are (uWSGI's default buffer, small pages, tokens kept for five seconds only). Its settings are
#   in the command's environment, so up.sh, down.sh and scenario.sh called from there mean the same cloud.
#   A cloud that was up already, or OSBED_KEEP=1: it stays up (a second run then begins at once).
set -uo pipefail
export OSBED_HOME=${OSBED_HOME:-$HOME/.cache/osbed} OSBED_BASE_PORT=${OSBED_BASE_PORT:-15100}
export OSBED_STATE=${OSBED_STATE:-$OSBED_HOME/e2e}
export OSBED_TOKEN_CACHE=${OSBED_TOKEN_CACHE:-5} OSBED_UWSGI_BUFFER=${OSBED_UWSGI_BUFFER:-4096}
export OSBED_PAGE_MAX=${OSBED_PAGE_MAX:-10} OSBED_NOVA_MAX=${OSBED_NOVA_MAX:-3}
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
[ $# -gt 0 ] || die "which command? e.g. e2e.sh cargo test --test NAME"

mkdir -p "$OSBED_STATE"
exec 8>"$OSBED_STATE/e2e-lock"
flock -n 8 || die "another e2e.sh is at work on $OSBED_STATE"
keep=${OSBED_KEEP:-0}
alive keystone && keep=1
finish() {
  local rc=$?
  trap - EXIT
  [ $rc = 0 ] || say "ended with $rc; the services' logs are in $LOG"
  [ "$keep" = 1 ] || "$OSBED_DIR/down.sh" 8>&-
  exit $rc
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
"$OSBED_DIR/up.sh" 8>&- || exit 1
"$@" 8>&-
