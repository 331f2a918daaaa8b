#!/usr/bin/env bash
set -euo pipefail
source "$MCP_SDK/tool-sdk.sh"

page="$(mcp_download_safe_or_fail --url "$(mcp_args_require '.url')" \
  --out "${TMPDIR:-/tmp}/ferry-timetable.$$" --allow timetables.ferry.example --timeout 5)"
mcp_emit_text "$(cat "$page")"
