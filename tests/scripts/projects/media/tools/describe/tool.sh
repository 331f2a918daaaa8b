#!/usr/bin/env bash
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
source "$MCP_SDK/tool-sdk.sh"
source "$here/../../lib/paths.sh"

clip="$(mcp_args_get '.clip // empty' 2>/dev/null || true)"
if [[ -z "$clip" ]]; then
  mcp_fail_invalid_args "name a clip"
fi
path="$(studio_path "$clip" read)"

complaint="$(mktemp)"
trap 'rm -f "$complaint"' EXIT
if facts="$("$here/../../bin/mediatool" probe "$path" 2>"$complaint")"; then
  mcp_result_success "$facts"
else
  mcp_fail -32603 "the clip cannot be described: $(cat "$complaint")" "$(mcp_json_obj clip "$clip")"
fi
