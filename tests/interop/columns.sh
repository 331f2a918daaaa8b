# Columns of a matrix of clients and transports. Sourced by tests/interop/run and asking, which have a
# function for each of their CLIENTS.
#   choose_columns [CLIENT [TRANSPORT]]       fills COLUMNS_TO_RUN, by way of those functions
#   columns VERSION TRANSPORTS COMMAND...     one for each transport that was asked for
#   beside_packages DIR PROGRAM               a copy of the program where node finds what it imports

HERE=$ROOT/tests/interop
COLUMNS_TO_RUN=()
export PYTHONDONTWRITEBYTECODE=1

choose_columns() {
    [[ $# -eq 0 || " ${CLIENTS[*]} " == *" $1 "* ]] ||
        fail "no client is called \`$1\`; the clients are: ${CLIENTS[*]}"
    TRANSPORT=${2:-}
    need python3
    for client in ${1:-"${CLIENTS[@]}"}; do
        "$client"
    done
}

columns() {
    local version=$1 transports=$2 transport
    shift 2
    [[ -z $TRANSPORT || " $transports " == *" $TRANSPORT "* ]] ||
        fail "$client has no \`$TRANSPORT\` transport; it has: $transports"
    for transport in ${TRANSPORT:-$transports}; do
        COLUMNS_TO_RUN+=("$client $version $transport $*")
    done
}

beside_packages() {
    cp "$HERE"/{ts_v1,ts_v2,steps,asking,asking_v1,asking_v2}.mjs "$HERE/witness" "$TOOLS/interop/$1/"
    echo "$TOOLS/interop/$1/$2"
}
