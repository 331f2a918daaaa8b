#!/usr/bin/env bash
# Asks about something.
# @param topic string  About what.
source "$ZCP_SDK/zcp.sh"

printf '[{"role":"user","content":%s},{"role":"assistant","content":"Yes?"}]\n' \
    "$(zcp_json_string "About $(zcp_arg topic)")"
