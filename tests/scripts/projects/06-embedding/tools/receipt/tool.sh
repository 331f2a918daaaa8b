#!/usr/bin/env bash
set -euo pipefail
source "$MCP_SDK/tool-sdk.sh"

receipt="$MCPBASH_PROJECT_ROOT/resources/receipt.txt"
mkdir -p "$(dirname "$receipt")"
printf '3 apples, 1.35' >"$receipt"

mcp_result_text_with_resource "$(mcp_json_obj message "Your receipt is enclosed")" \
  --path "$receipt" --mime text/plain
