#!/usr/bin/env bash
set -euo pipefail
source "$MCP_SDK/tool-sdk.sh"
source "$MCPBASH_PROJECT_ROOT/lib/settings.sh"

url="$(mcp_args_require '.url')"
wait="$(mcp_args_int '.wait' --default "$(mcp_config_get '.timeout' --default 15)")"
hosts="$(mcp_config_get '.hosts' | jq -r 'join(" ")')"

if [[ "$url" != https://* ]]; then
  mcp_error "validation_error" "Only https addresses are fetched" \
    --hint "Write https:// at the front" \
    --data "$(mcp_json_obj given "$url")"
  exit 0
fi

allow=()
for host in $hosts; do
  allow+=(--allow "$host")
done
page="$(mktemp)"
trap 'rm -f "$page"' EXIT

mcp_log_info "ferry.fetch" "asking for $url"
outcome="$(mcp_download_safe --url "$url" --out "$page" "${allow[@]}" \
  --timeout "$wait" --max-bytes "$(mcp_config_get '.max_bytes')")"

if [[ "$(jq -r '.success' <<<"$outcome")" == true ]]; then
  mcp_result_success "$(mcp_json_obj url "$url" start "$(head -c 80 "$page")")"
  exit 0
fi
kind="$(jq -r '.error.type' <<<"$outcome")"
case "$kind" in
host_blocked)
  mcp_error "$kind" "That host has no timetables" --hint "Known hosts: $hosts"
  ;;
*)
  mcp_error "$kind" "$(jq -r '.error.message' <<<"$outcome")"
  ;;
esac
