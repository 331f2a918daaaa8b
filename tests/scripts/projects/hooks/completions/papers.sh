#!/usr/bin/env bash
set -euo pipefail

typed="$("${MCPBASH_JSON_TOOL_BIN:-jq}" -r '.query // .prefix // ""' <<<"$MCP_COMPLETION_ARGS_JSON")"
"${MCPBASH_JSON_TOOL_BIN:-jq}" -c --arg typed "$typed" '[.[] | select(contains($typed))] | .[0:3]' <<'PAPERS'
["laid", "linen", "marbled", "rag", "rice", "wove"]
PAPERS
