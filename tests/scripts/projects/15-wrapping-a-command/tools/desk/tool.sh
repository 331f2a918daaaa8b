#!/usr/bin/env bash
# No -e: commands may fail, and their failure is told.
set -uo pipefail
source "$MCP_SDK/tool-sdk.sh"
set +e

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
source "$here/../../lib/find-command.sh"
bin="$here/../../bin"

task="$(mcp_args_get '.task // empty')"
if [[ -z "$task" ]]; then
  mcp_fail_invalid_args "which task?"
fi

case "$task" in
sort)
  sorter="$(find_command sort "It comes with every system.")" || mcp_fail -32603 "nothing to sort with"
  sorted="$(mcp_args_get '.names // [] | .[]' | "$sorter" | paste -sd, -)"
  mcp_result_success "$(mcp_json_obj sorted "$sorted")"
  ;;
weigh)
  memory="${TMPDIR:-/tmp}/scales.$$"
  if weight="$(mcp_with_retry 3 0.1 -- "$bin/scales" "$memory" 2>/dev/null)"; then
    mcp_result_success "$(mcp_json_obj weight "$weight")"
  else
    mcp_result_error "$(mcp_json_obj type cli_error message "The scales are out of order")"
  fi
  ;;
trace)
  complaint="$(mktemp)"
  report="$("$bin/tracer" "$(mcp_args_get '.style // "silent"')" 2>"$complaint")"
  code=$?
  reason="$(mcp_extract_cli_error "$report" "$(cat "$complaint")" "$code")"
  rm -f "$complaint"
  mcp_result_error "$(mcp_json_obj type cli_error message "$reason" command tracer)"
  exit 0
  ;;
fold)
  folder="$(find_command parcel-folder "Ask the supplier.")" || mcp_fail -32603 "nothing to fold with"
  "$folder"
  ;;
*)
  mcp_fail_invalid_args "the desk does not do: $task"
  ;;
esac
