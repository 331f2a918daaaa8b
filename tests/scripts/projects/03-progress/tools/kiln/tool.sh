#!/usr/bin/env bash
set -euo pipefail
source "$MCP_SDK/tool-sdk.sh"

potter="$(mcp_meta_get '.["pottery/potter"] // "someone"')"

for stage in 20 60 100; do
  if mcp_is_cancelled; then
    mcp_fail -32001 "The kiln was switched off"
  fi
  mcp_progress "$stage" "$((stage * 12)) degrees" 100
  sleep 0.3
done
mcp_result_success "$(mcp_json_obj message "Glazed and fired" potter "$potter")"
