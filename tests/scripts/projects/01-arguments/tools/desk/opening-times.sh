#!/usr/bin/env bash
# mcp: {"name":"opening-times","description":"Tells when the library is open"}
set -euo pipefail
source "$MCP_SDK/tool-sdk.sh"

mcp_emit_text "Open from ten to six, closed on Mondays."
