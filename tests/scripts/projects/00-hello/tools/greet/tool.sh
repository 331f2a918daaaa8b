#!/usr/bin/env bash
set -euo pipefail
source "$MCP_SDK/tool-sdk.sh"

mcp_result_success "$(mcp_json_obj message "Good morning! The first loaves are out.")"
