#!/usr/bin/env bash
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
source "$MCP_SDK/tool-sdk.sh"
source "$here/../../lib/paths.sh"
source "$here/../../lib/presets.sh"

clip="$(mcp_args_get '.clip // empty')"
out="$(mcp_args_get '.out // empty')"
preset="$(mcp_args_get '.preset // empty')"
if [[ -z "$clip" || -z "$out" || -z "$preset" ]]; then
  mcp_fail_invalid_args "clip, out and preset are needed"
fi
from="$(studio_path "$clip" read)"
to="$(studio_path "$out" write)"

if [[ -f "$to" ]]; then
  if [[ "${MCP_ELICIT_SUPPORTED:-0}" != 1 ]]; then
    mcp_result_error "$(mcp_json_obj type file_error message "There is such a clip already" out "$out")"
    exit 0
  fi
  reply="$(mcp_elicit_confirm "Replace $out?")"
  fields="$("$MCPBASH_JSON_TOOL_BIN" -r '[.action, (.content.confirmed // false)] | @tsv' <<<"$reply")"
  if [[ "$fields" != accept$'\t'true ]]; then
    mcp_result_error "$(mcp_json_obj type permission_denied message "The old clip stays" out "$out" \
      hint "Name another place")"
    exit 0
  fi
fi

# An unknown preset is told, and the clip is converted at its own width all the same:
# what is printed first is the result.
load_presets
if ! width="$(preset_width "$preset")"; then
  mcp_result_error "$(mcp_json_obj type validation_error message "Unknown preset" preset "$preset" \
    hint "Presets: ${PRESET_NAMES[*]}")"
  width="$(sed -n 's/^width=//p' "$from")"
fi

total_ms="$("$here/../../bin/mediatool" probe "$from" | "$MCPBASH_JSON_TOOL_BIN" '.seconds * 1000')"
mcp_progress 0 "Threading the reel"

pipes="$(mktemp -d)"
trap 'rm -rf "$pipes"' EXIT INT TERM
mkfifo "$pipes/progress"
"$here/../../bin/mediatool" convert "$from" "$width" "$pipes/progress" "$to" &
worker=$!

while IFS='=' read -r key value; do
  if [[ "$key" == done_ms ]]; then
    percent=$((value * 100 / total_ms))
    mcp_progress "$percent" "Converted $percent%"
  fi
  if mcp_is_cancelled; then
    kill "$worker" 2>/dev/null || true
    rm -f "$to"
    mcp_fail -32001 "The reel was stopped"
  fi
done <"$pipes/progress"

if ! wait "$worker"; then
  rm -f "$to"
  mcp_fail -32603 "the reel tore"
fi
mcp_result_success "$(mcp_json_obj message "Converted to $out")"
