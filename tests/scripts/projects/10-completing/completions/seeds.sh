#!/usr/bin/env bash
set -euo pipefail

typed="$("$MCPBASH_JSON_TOOL_BIN" -r '.query // .prefix // ""' <<<"$MCP_COMPLETION_ARGS_JSON")"

"$MCPBASH_JSON_TOOL_BIN" -n -c \
  --arg typed "$typed" \
  --argjson limit "${MCP_COMPLETION_LIMIT:-5}" \
  --argjson offset "${MCP_COMPLETION_OFFSET:-0}" '
    def fits($text): ascii_downcase | startswith($text | ascii_downcase);

    ["Basil", "Beans", "Beetroot", "Bellflower", "Borage", "Broccoli", "Buckwheat",
     "Carrot", "Chard", "Chives"] as $catalogue
    | [$catalogue[] | select(fits($typed))] as $found
    | $found[$offset:$offset + $limit] as $page
    | ($offset + ($page | length)) as $next
    | {
        suggestions: $page,
        hasMore: ($next < ($found | length)),
        next: (if $next < ($found | length) then $next else null end)
      }
  '
