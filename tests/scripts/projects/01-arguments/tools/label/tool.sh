#!/usr/bin/env bash
set -euo pipefail
source "$MCP_SDK/tool-sdk.sh"

lines="$(mcp_args_get '.lines // empty')"
if [[ -z "$lines" ]] || ! mcp_is_valid_json "$lines"; then
  mcp_fail_invalid_args "a label needs lines" "$(mcp_args_raw)"
fi
label="$("$MCPBASH_JSON_TOOL_BIN" -r 'join(" / ")' <<<"$lines")"

# Plain JSON, no envelope: the server makes structured content of it.
mcp_emit_json "{
  \"label\": $(mcp_json_escape "$label"),
  \"bytes\": $(mcp_byte_length "$label"),
  \"inks\": $(mcp_json_arr black "dark red")
}"
