#!/usr/bin/env bash
set -euo pipefail
source "$MCP_SDK/tool-sdk.sh"
source "$MCPBASH_PROJECT_ROOT/lib/settings.sh"

captain="nobody"
if mcp_config_get '.captain' >/dev/null; then
  captain="somebody"
fi
mcp_result_success "$(mcp_json_obj \
  timeout "$(mcp_config_get '.timeout')" \
  season "$(mcp_config_get '.season.name')" \
  night_service "$(mcp_config_get '.night_service' --default true)" \
  max_bytes "$(mcp_config_get '.max_bytes')" \
  quay "$(mcp_config_get '.quay')" \
  flag "$(mcp_config_get '.flag' --default blue)" \
  captain "$captain")"
