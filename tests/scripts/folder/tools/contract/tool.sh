#!/usr/bin/env bash
set -euo pipefail
source "$MCP_SDK/tool-sdk.sh"

word=$(mcp_args_require '.word')
mcp_progress 50 halfway 100
mcp_log_info contract "the word is $word"
mcp_result_success "$(mcp_json_obj word "$word" many "$(mcp_args_get '.many | join("+")')" stdin "$(cat)")"
