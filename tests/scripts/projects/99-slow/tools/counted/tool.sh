#!/usr/bin/env bash
set -euo pipefail
source "$MCP_SDK/tool-sdk.sh"

tears="$(mktemp)"

# Each form of progress that a command may print, one after the other.
mcp_run_with_progress --pattern '([0-9]+) of ([0-9]+)' --extract ratio --interval 0.05 --quiet \
  --stdout /dev/null --stderr-file "$tears" \
  -- sh -c 'echo "onion 1 of 4" >&2; echo "sniff" >&2; sleep 0.3; echo "onion 2 of 4" >&2'
mcp_run_with_progress --pattern 'layer ([0-9]+)' --extract match1 --total 20 --interval 0.05 --quiet \
  --stdout /dev/null -- sh -c 'sleep 0.3; echo "layer 15" >&2'
left="$(mcp_run_with_progress --pattern '"progress"' --extract json --interval 0.05 --quiet \
  -- sh -c 'sleep 0.3; echo "{\"progress\":100,\"message\":\"peeled\"}" >&2; echo none')"

heard="$(cat "$tears")"
rm -f "$tears"
mcp_result_success "$(mcp_json_obj left "$left" heard "$heard")"
