# shellcheck shell=bash
# The presets of config/presets.json.

PRESET_NAMES=()
PRESET_WIDTHS=()

load_presets() {
  local lines name width
  if ! lines="$("$MCPBASH_JSON_TOOL_BIN" -r -f "$STUDIO/lib/presets.jq" "$STUDIO/config/presets.json")"; then
    mcp_fail -32603 "the presets cannot be read"
  fi
  while IFS=$'\t' read -r name width; do
    PRESET_NAMES+=("$name")
    PRESET_WIDTHS+=("$width")
  done <<<"$lines"
}

# preset_width NAME: prints the width, or fails.
preset_width() {
  local index
  for index in "${!PRESET_NAMES[@]}"; do
    if [[ "${PRESET_NAMES[$index]}" == "$1" ]]; then
      printf '%s' "${PRESET_WIDTHS[$index]}"
      return 0
    fi
  done
  return 1
}
