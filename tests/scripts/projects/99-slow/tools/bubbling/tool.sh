#!/usr/bin/env bash
set -euo pipefail
source "$MCP_SDK/tool-sdk.sh"

halves="$(mcp_args_int '.halves' --default 10)"

# Tells that it is alive, but not how far it is.
bubble() {
  local turn
  for ((turn = 1; turn <= $1; turn++)); do
    printf '{"event":"bubble","turn":%d}\n' "$turn" >&2
    sleep 0.5
  done
  echo "$1 bubbles"
}

seen="$(mcp_run_with_progress --pattern '^\{"event"' --extract json --quiet \
  -- bash -c "$(declare -f bubble); bubble $halves")"
mcp_result_success "$(mcp_json_obj message "Done" seen "$seen")"
