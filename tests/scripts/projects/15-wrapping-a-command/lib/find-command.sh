#!/usr/bin/env bash
# Finds a command although PATH may be short.

# find_command NAME ADVICE: prints where NAME is. NAME_COMMAND in the environment has the last word.
find_command() {
  local named="$(printf '%s_COMMAND' "$1" | tr 'a-z-' 'A-Z_')" folder
  if [[ -n "${!named:-}" ]]; then
    printf '%s\n' "${!named}"
    return 0
  fi
  for folder in "$HOME/.local/bin" /usr/local/bin /usr/bin /bin; do
    if [[ -x "$folder/$1" ]]; then
      printf '%s\n' "$folder/$1"
      return 0
    fi
  done
  command -v "$1" 2>/dev/null && return 0
  printf '%s is not installed. %s\n' "$1" "$2" >&2
  return 1
}
