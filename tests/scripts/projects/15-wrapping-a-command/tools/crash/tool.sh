#!/usr/bin/env bash
source "$MCP_SDK/tool-sdk.sh"

if [[ "$(mcp_args_bool '.loud' --default false)" == true ]]; then
  echo "CRASH: it was glass"
fi
echo "slipped at the counter" >&2
exit 7
