#!/usr/bin/env bash
set -euo pipefail
source "$MCP_SDK/tool-sdk.sh"

halves="$(mcp_args_int '.halves' --default 10)"
sleep "$((halves / 2)).$((halves % 2 * 5))"
mcp_result_success "$(mcp_json_obj message "Soft after $halves halves")"
