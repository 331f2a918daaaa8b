# Tools, clients and servers, which only the command knows.
_zcp_and_names() {
    local -a names
    names=(${(f)"$(zcp __complete -- ${words[2,CURRENT-1]} "${words[CURRENT]}" 2>/dev/null)"})
    (( $#names )) && compadd -a names
    _zcp "$@"
}
