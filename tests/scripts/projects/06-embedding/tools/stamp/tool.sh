#!/usr/bin/env bash
set -euo pipefail
source "$MCP_SDK/tool-sdk.sh"

# A picture of one dot.
picture="$MCPBASH_PROJECT_ROOT/stamp.gif"
printf 'GIF89a\001\000\001\000\200\000\000\000\000\000\377\377\377!\371\004\001\000\000\000\000,\000\000\000\000\001\000\001\000\000\002\002D\001\000;' >"$picture"

mcp_result_text_with_resource "$(mcp_json_obj message "One more and the next bag is free")" \
  --path "$picture" --mime image/gif --uri "stand://stamps/7" \
  --path "$MCPBASH_PROJECT_ROOT/no-such-file"
