#!/usr/bin/env bash
# Says hello to somebody. (The model reads this sentence: say what the tool does, and when to use it.)
#
# @param name string            Who to greet.
# @param loud boolean = false   Whether to shout.
# @read-only
set -eu

greeting="Hello, $ARG_NAME!"
if [ "$ARG_LOUD" = true ]; then
  greeting=$(printf '%s' "$greeting" | tr '[:lower:]' '[:upper:]')
fi
printf '%s\n' "$greeting"
