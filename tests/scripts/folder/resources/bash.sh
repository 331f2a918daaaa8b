#!/usr/bin/env bash
source "$ZCP_SDK/zcp.sh"

printf '{"city":%s,"street":%s,"uri":%s}\n' \
    "$(zcp_json_string "$(zcp_arg city)")" "$(zcp_json_string "$ARG_STREET")" "$(zcp_json_string "$ZCP_URI")"
