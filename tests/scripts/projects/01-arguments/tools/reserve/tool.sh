#!/usr/bin/env bash
set -euo pipefail
source "$MCP_SDK/tool-sdk.sh"

title="$(mcp_args_require '.title' 'which book? a title is needed')"
copies="$(mcp_args_int '.copies' --default 1 --min 1 --max 5)"
express="$(mcp_args_bool '.express' --default false)"

where="on the reserve shelf"
if [[ "$express" == true ]]; then
  where="at the front desk"
fi
mcp_result_success "$(mcp_json_obj message "$copies x $title is waiting $where")"
