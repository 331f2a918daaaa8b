#!/usr/bin/env bash
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
source "$MCP_SDK/tool-sdk.sh"
source "$here/../../lib/paths.sh"

clip="$(mcp_args_require '.clip')"
second="$(mcp_args_require '.second')"
out="$(mcp_args_require '.out')"
from="$(studio_path "$clip" read)"
to="$(studio_path "$out" write)"

complaint="$(mktemp)"
trap 'rm -f "$complaint"' EXIT
if "$here/../../bin/mediatool" still "$from" "$second" "$to" 2>"$complaint"; then
  mcp_result_success "$(mcp_json_obj message "Printed to $out")"
else
  mcp_fail -32603 "no picture: $(cat "$complaint")"
fi
