#!/usr/bin/env bash
set -euo pipefail
source "$MCP_SDK/tool-sdk.sh"

card="$(mcp_args_get '.card // empty' 2>/dev/null || true)"
if [[ -z "$card" ]]; then
  mcp_fail_invalid_args "name a card"
fi

# Nothing stops after these two refusals: what is printed first is the answer.
if ! mcp_roots_contains "$card"; then
  beds="$(mcp_roots_list | head -n 3 | tr '\n' ' ')"
  mcp_error "permission_denied" "That card is not in the garden" \
    --hint "Cards are kept in $beds" \
    --data "$(mcp_json_obj card "$card")"
fi
if [[ ! -f "$card" ]]; then
  mcp_error "not_found" "No such card" \
    --hint "Look for a .txt file in the beds" \
    --data "$(mcp_json_obj card "$card")"
fi

text="$(cat "$card")"
bytes="$(mcp_byte_length "$text")"
mcp_result_success "$("$MCPBASH_JSON_TOOL_BIN" -n \
  --arg card "$(realpath "$card")" --arg text "$text" --argjson bytes "$bytes" \
  '{card: $card, bytes: $bytes, text: $text}')"
