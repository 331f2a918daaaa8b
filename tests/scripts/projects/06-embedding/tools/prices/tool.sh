#!/usr/bin/env bash
set -euo pipefail

# Without the SDK: one line for each file, with tabs between path, type and address.
for list in apples pears; do
  printf 'prices/%s.csv\ttext/csv\tstand://prices/%s\n' "$list" "$list" >>"$MCP_TOOL_RESOURCES_FILE"
done
echo "Prices as of this morning"
