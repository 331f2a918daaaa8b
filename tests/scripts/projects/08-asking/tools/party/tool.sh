#!/usr/bin/env bash
set -euo pipefail
source "$MCP_SDK/tool-sdk.sh"

field() {
  "$MCPBASH_JSON_TOOL_BIN" -r "$1" <<<"$2"
}

host="$(field '.content.host' "$(mcp_elicit_string "Who is the host?" host)")"

form='{"type":"object","properties":{"guests":{"type":"integer","minimum":1},"day":{"type":"string","format":"date"}},"required":["guests","day"]}'
party="$(mcp_elicit "How many come, and when?" "$form" 20)"
guests="$(field '.content.guests' "$party")"
day="$(field '.content.day' "$party")"

wishes="$(field '.content.choices | join(", ")' "$(mcp_elicit_titled_multi_choice "What shall we prepare?" \
  "music:A piano player" "lights:Paper lanterns" "cake:A cake")")"

paid="$(field '.action' "$(mcp_elicit_url "Please leave a deposit" "https://pay.cafe.example/deposit?guests=$guests")")"
if [[ "$paid" != accept ]]; then
  mcp_result_error "$(mcp_json_obj type "payment_missing" message "$host, the room is not booked: deposit $paid")"
  exit 0
fi
mcp_result_success "$(mcp_json_obj message "$host, the room is yours on $day" guests "$guests" wishes "$wishes")"
