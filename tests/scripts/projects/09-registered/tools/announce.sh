#!/usr/bin/env bash
set -euo pipefail
source "$MCP_SDK/tool-sdk.sh"

train="$(mcp_args_get '.train // "the night train"')"
for chime in 25 50 75 100; do
  if mcp_is_cancelled; then
    mcp_fail -32001 "The announcement was cut off"
  fi
  mcp_progress "$chime" "Ding"
  sleep 0.1
done
mcp_result_success "$(mcp_json_obj message "Now arriving: $train")"
