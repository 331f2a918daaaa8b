#!/usr/bin/env bash
set -euo pipefail
source "$MCP_SDK/tool-sdk.sh"

halves="$(mcp_args_int '.halves' --default 10)"
for ((turn = 1; turn <= halves; turn++)); do
  mcp_progress "$((turn * 100 / halves))" "Stirred $turn times"
  sleep 0.5
done
mcp_result_success "$(mcp_json_obj message "Smooth after $halves halves")"
