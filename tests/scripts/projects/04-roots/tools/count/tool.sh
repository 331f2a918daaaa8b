#!/usr/bin/env bash
set -euo pipefail
source "$MCP_SDK/tool-sdk.sh"

bed="$(mcp_require_path '.bed' --default-to-single-root)"
cards="$(find "$bed" -name '*.txt' | wc -l | tr -d ' ')"
mcp_result_success "$(mcp_json_obj cards "$cards" roots "$(mcp_roots_count)")"
