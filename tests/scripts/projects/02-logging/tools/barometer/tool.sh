#!/usr/bin/env bash
set -euo pipefail
source "$MCP_SDK/tool-sdk.sh"

mcp_debug "not for the client: the needle is read by eye"
mcp_log_debug "station.barometer" "tapping the glass"
mcp_log_info "station.barometer" "the needle has settled"
mcp_log NOTICE "station.barometer" '{"hPa":987,"trend":"falling"}'
mcp_log_warn "station.barometer" "below a thousand: \"bring a coat\""
mcp_log_error "station.barometer" "the paper roll is empty"

mcp_result_success "$(mcp_json_obj pressure "987 hPa")"
