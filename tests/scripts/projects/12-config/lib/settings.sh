# shellcheck shell=bash
# The office's settings: the environment first, then two files, then what is written here.
mcp_config_load \
  --env FERRY_SETTINGS \
  --file "$MCPBASH_PROJECT_ROOT/config.json" \
  --example "$MCPBASH_PROJECT_ROOT/config.sample.json" \
  --defaults '{"timeout": 50, "max_bytes": 1024, "quay": "North Quay"}'
