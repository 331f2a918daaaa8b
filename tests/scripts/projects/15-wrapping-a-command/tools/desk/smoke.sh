#!/usr/bin/env bash
# Tries the desk by hand: give the command that runs a tool of this folder.
set -euo pipefail

"$@" parcel-desk --args '{"task":"weigh"}'
"$@" parcel-desk --args '{"task":"sort","names":["Zoe","Ada"]}'
