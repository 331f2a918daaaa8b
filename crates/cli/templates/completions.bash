
# Tools, clients and servers, which only the command knows.
_zcp_and_names() {
    _zcp "$@"
    local typed="${COMP_WORDS[COMP_CWORD]}" word
    while IFS= read -r word; do
        printf -v word %q "$word"
        COMPREPLY+=("$word")
    done < <("${COMP_WORDS[0]}" __complete -- "${COMP_WORDS[@]:1:COMP_CWORD-1}" "$typed" 2>/dev/null)
}
complete -F _zcp_and_names -o bashdefault -o default zcp
