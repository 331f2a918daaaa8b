#!/usr/bin/env bash
# Registers what the bookbinder offers. Runs only where hooks are allowed.
set -euo pipefail

mcp_completion_manual_begin
mcp_completion_register_manual '{"name":"binder.papers","path":"completions/papers.sh","timeoutSecs":5}'
if [[ "${BINDER_SELLS_THREAD:-no}" == yes ]]; then
  mcp_completion_register_manual '{"name":"binder.threads","path":"completions/threads.sh","timeoutSecs":5}'
fi
mcp_completion_manual_finalize

mcp_resources_templates_manual_begin
mcp_resources_templates_register_manual '{
  "name": "binder-orders",
  "title": "Orders",
  "uriTemplate": "file:///srv/binder/{customer}/{year}.txt",
  "description": "Orders by customer and year"
}'
mcp_resources_templates_manual_finalize
