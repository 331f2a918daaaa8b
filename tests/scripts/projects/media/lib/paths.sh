# shellcheck shell=bash
# Paths of the studio: always inside the roots.

STUDIO="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"

# Without any roots the studio's own folder is the root.
studio_roots() {
  if [[ -z "${MCP_ROOTS_PATHS:-}" ]]; then
    export MCP_ROOTS_PATHS="$STUDIO/studio" MCP_ROOTS_COUNT=1
  fi
}

# studio_path PATH read|write: prints the whole path. Called in $(...), so a refusal
# travels by the error file.
studio_path() {
  local path="${1#./}" mode="$2" root try found=""
  [[ -n "$path" ]] || mcp_fail_invalid_args "a path must not be empty"
  studio_roots

  if [[ "$path" == /* ]]; then
    ! mcp_roots_contains "$path" || found="$path"
  else
    while read -r root; do
      [[ -n "$root" ]] || continue
      # "studio/x" means x when the root is called studio.
      try="$root/${path#"${root##*/}"/}"
      if mcp_roots_contains "$try"; then
        found="$try"
        break
      fi
    done <<<"$MCP_ROOTS_PATHS"
  fi

  [[ -n "$found" ]] || mcp_fail -32602 "$1 is not in the studio"
  if [[ "$mode" == read ]]; then
    [[ -f "$found" ]] || mcp_fail -32602 "there is no $1"
  else
    mkdir -p "$(dirname "$found")" || mcp_fail -32603 "no room for $1"
  fi
  printf '%s' "$found"
}
