#!/usr/bin/env bash
set -euo pipefail
source "$MCP_SDK/tool-sdk.sh"

# Prints what was done with a question, a tab, and what was answered.
answer() {
  "$MCPBASH_JSON_TOOL_BIN" -r "[.action, ($1)] | @tsv" <<<"$2"
}

# The questions go on after a refusal: what is printed first is the result.
stop() {
  mcp_result_success "$(mcp_json_obj message "No order: $1 at the $2")"
}

ready="$(answer '.content.confirmed // false' "$(mcp_elicit_confirm "Are you ready to order?")")"
[[ "$ready" == accept$'\t'true ]] || stop "${ready%%$'\t'*}" "door"

dish="$(answer '.content.choice // ""' "$(mcp_elicit_choice "What will it be?" soup salad "cheese toast")")"
[[ "$dish" == accept* ]] || stop "${dish%%$'\t'*}" "menu"

size="$(answer '.content.choice // ""' "$(mcp_elicit_titled_choice "How hungry are you?" \
  "small:A little (one bowl)" "large:Very: like a bear")")"
[[ "$size" == accept* ]] || stop "${size%%$'\t'*}" "counter"

extras="$(answer '.content.choices // [] | join(" + ")' \
  "$(mcp_elicit_multi_choice "Anything with it?" bread water napkin)")"
[[ "$extras" == accept* ]] || stop "${extras%%$'\t'*}" "till"

mcp_result_success "$(mcp_json_obj message "Order taken" \
  dish "${dish#*$'\t'}" size "${size#*$'\t'}" extras "${extras#*$'\t'}")"
