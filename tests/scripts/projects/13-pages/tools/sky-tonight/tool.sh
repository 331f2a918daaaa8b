#!/usr/bin/env bash
set -euo pipefail
source "$MCP_SDK/tool-sdk.sh"

town="$(mcp_args_get '.town // empty' 2>/dev/null || true)"
sky="$(mcp_json_obj town "${town:-Reykjavik}" planet Saturn moon "first quarter")"

# A whole result by hand; jq is taken from PATH.
text="$(printf '%s' "$sky" | jq -c '.' | jq -Rs '.')"
cat <<RESULT
{
  "content": [{"type": "text", "text": $text}],
  "structuredContent": $sky,
  "isError": false
}
RESULT
