#!/usr/bin/env bash
set -euo pipefail
source "$MCP_SDK/tool-sdk.sh"

# used|percent of the disk that holds the root folder
disk() {
  if type df >/dev/null 2>&1; then
    df -P / | awk 'NR == 2 { sub(/%/, "", $5); print $3 "|" $5 }'
  else
    echo "0|0"
  fi
}

case "$(uname -s)" in
Darwin) family="mac" ;;
Linux) family="linux" ;;
*) family="other" ;;
esac

filled="$(disk)"
mcp_result_success "$(mcp_json_obj \
  system "$(uname -s)" \
  family "$family" \
  hour "$(date +%H | sed 's/^0//')" \
  diskUsed "$(cut -d'|' -f1 <<<"$filled")" \
  diskPercent "$(cut -d'|' -f2 <<<"$filled")")"
