# shellcheck shell=bash disable=SC2016
# (SC2016: the dollars in single quotes are variables of jq.)
#
# The functions that tools written for mcp-bash call, for scripts that this server runs.
#
#   . "$MCP_SDK/tool-sdk.sh"
#
# Bash 3.2 or newer, under `set -euo pipefail`. "$MCPBASH_JSON_TOOL_BIN" (jq or alike) is the only program for JSON,
# and it is started only where bash cannot do the work itself.
#
# Public functions are `mcp_…` and print their answer. Private ones are `__mcp_…` and leave it in the variable that
# their comment names, because each `$(…)` is a process.

set -euo pipefail

: "${MCP_PROGRESS_STREAM:=}" "${MCP_PROGRESS_TOKEN:=}" "${MCP_LOG_STREAM:=}"
MCP_TOOL_CANCELLATION_FILE=${MCP_CANCEL_FILE-}

# ---- Words that the rest is made of ---------------------------------------------------------------------------------

__mcp_warn() { printf '%s\n' "$1" >&2; }

__mcp_json_ready() {
    [ "${MCPBASH_MODE:-full}" != minimal ] && [ -n "${MCPBASH_JSON_TOOL_BIN:-}" ] &&
        command -v "$MCPBASH_JSON_TOOL_BIN" >/dev/null 2>&1
}

__mcp_jq() { "$MCPBASH_JSON_TOOL_BIN" "$@"; }

# Arguments may be secrets: a tool that runs under `set -x` must not write them into its trace.
__mcp_traced=""
__mcp_hush() {
    case $- in *x*)
        set +x
        __mcp_traced=1
        ;;
    esac
}
__mcp_unhush() {
    if [ -n "$__mcp_traced" ]; then
        __mcp_traced=""
        set -x
    fi
}

# __mcp_is_uint TEXT: digits only, and few enough for arithmetic.
__mcp_is_uint() {
    case ${1-} in '' | *[!0123456789]*) return 1 ;; esac
    [ "${#1}" -le 18 ]
}

# __mcp_uint TEXT DEFAULT: __mcp_number is TEXT if it is a whole number, otherwise DEFAULT.
__mcp_uint() {
    local text=${1//[[:space:]]/}
    __mcp_is_uint "$text" || text=$2
    __mcp_number=$((10#$text))
}

# ---- JSON text ------------------------------------------------------------------------------------------------------

# Bash before 5 takes time that grows with the square of the length to replace in a text; above this the tool is faster.
__MCP_QUOTE_LIMIT=2000
[ "${BASH_VERSINFO[0]}" -lt 5 ] || __MCP_QUOTE_LIMIT=32000

# The sequences of bytes that are one character of UTF-8 beyond ASCII, as patterns for the C locale.
__mcp_tail=$'[\x80-\xbf]'
__MCP_UTF8=(
    $'\xf0[\x90-\xbf]'"$__mcp_tail$__mcp_tail"
    $'[\xf1-\xf3]'"$__mcp_tail$__mcp_tail$__mcp_tail"
    $'\xf4[\x80-\x8f]'"$__mcp_tail$__mcp_tail"
    $'\xe0[\xa0-\xbf]'"$__mcp_tail"
    $'[\xe1-\xec\xee\xef]'"$__mcp_tail$__mcp_tail"
    $'\xed[\x80-\x9f]'"$__mcp_tail"
    $'[\xc2-\xdf]'"$__mcp_tail"
)

# __mcp_is_utf8 TEXT: every byte beyond ASCII is part of a whole character.
__mcp_is_utf8() {
    local LC_ALL=C rest=$1 character
    for character in "${__MCP_UTF8[@]}"; do
        # shellcheck disable=SC2295 # A pattern on purpose.
        rest=${rest//$character/_}
    done
    case $rest in *[$'\x80'-$'\xff']*) return 1 ;; esac
}

# __mcp_quote TEXT: __mcp_quoted is TEXT as a JSON string.
__mcp_quote() {
    # shellcheck disable=SC1003
    local LC_ALL=C text=${1-} slash='\' quote='"'
    if [ "${#text}" -gt "$__MCP_QUOTE_LIMIT" ] && __mcp_quote_by_tool "$text"; then return 0; fi
    text=${text//"$slash"/"$slash$slash"}
    text=${text//"$quote"/"$slash$quote"}
    case $text in *[!\ -~]*)
        text=${text//$'\n'/"${slash}n"}
        text=${text//$'\r'/"${slash}r"}
        text=${text//$'\t'/"${slash}t"}
        case $text in *[[:cntrl:]]*)
            if __mcp_quote_by_tool "$1"; then return 0; fi
            text=${text//[[:cntrl:]]/}
            ;;
        esac
        if ! __mcp_is_utf8 "$text" && __mcp_quote_by_tool "$1"; then return 0; fi
        ;;
    esac
    __mcp_quoted=$quote$text$quote
}

__mcp_quote_by_tool() {
    __mcp_json_ready || return 1
    __mcp_quoted=$(printf '%s' "$1" | __mcp_jq -Rs . 2>/dev/null)
}

# __mcp_quote_list TEXT...: __mcp_quoted_list is a JSON array of strings.
__mcp_quote_list() {
    local list="" text
    for text in "$@"; do
        __mcp_quote "$text"
        list=$list,$__mcp_quoted
    done
    __mcp_quoted_list="[${list#,}]"
}

__mcp_string='"([^"\\]|\\(["\\/bfnrt]|u[0-9a-fA-F]{4}))*"'
__mcp_member="$__mcp_string:($__mcp_string|-?(0|[1-9][0-9]*)|true|false|null)"
__MCP_FLAT_OBJECT="^[{]($__mcp_member(,$__mcp_member)*)?[}]\$"

# __mcp_is_flat_object TEXT: surely a JSON object, without blanks or nesting. Most results are, and need no tool.
__mcp_is_flat_object() {
    local LC_ALL=C
    [ "${#1}" -le 4096 ] || return 1
    case $1 in *[[:cntrl:]]*) return 1 ;; esac
    [[ $1 =~ $__MCP_FLAT_OBJECT ]] && __mcp_is_utf8 "$1"
}

# __mcp_one_json TEXT: __mcp_json is TEXT on one line; fails unless it is exactly one JSON value.
__mcp_one_json() {
    __mcp_json=$1
    if __mcp_is_flat_object "$1"; then return 0; fi
    __mcp_json_ready || return 1
    __mcp_json=$(__mcp_jq -c -s 'if length == 1 then .[0] else error("one value") end' <<<"$1" 2>/dev/null)
}

mcp_json_escape() {
    __mcp_quote "${1-}"
    printf '%s\n' "$__mcp_quoted"
}

mcp_json_obj() {
    if [ $(($# & 1)) -eq 1 ]; then
        __mcp_warn "mcp_json_obj: expected even number of arguments (key value ...), got $#"
        # Not `return`: inside `"$(…)"` nobody would notice.
        exit 1
    fi
    local members="" key
    while [ $# -gt 0 ]; do
        __mcp_quote "$1"
        key=$__mcp_quoted
        __mcp_quote "$2"
        members=$members,$key:$__mcp_quoted
        shift 2
    done
    printf '{%s}' "${members#,}"
}

mcp_json_arr() {
    __mcp_quote_list "$@"
    printf '%s' "$__mcp_quoted_list"
}

mcp_is_valid_json() {
    __mcp_json_ready || return 0
    __mcp_one_json "${1-}"
}

# __mcp_bytes TEXT: __mcp_size is its length in bytes.
__mcp_bytes() {
    local LC_ALL=C text=${1-}
    __mcp_size=${#text}
}

mcp_byte_length() {
    __mcp_bytes "${1-}"
    printf '%s\n' "$__mcp_size"
}

# ---- What the caller sent -------------------------------------------------------------------------------------------

# The payloads of a call are ARGS and META; each comes in MCP_TOOL_<which>_JSON or, when large, in the file that
# MCP_TOOL_<which>_FILE names.

# __mcp_payload WHICH: prints the payload.
__mcp_payload() {
    local file=MCP_TOOL_$1_FILE inline=MCP_TOOL_$1_JSON
    file=${!file:-} inline=${!inline:-}
    if [ -f "$file" ]; then
        cat "$file"
    else
        [ -n "$inline" ] || inline='{}'
        printf '%s' "$inline"
    fi
}

# __mcp_ask WHICH FILTER: __mcp_value is what FILTER finds in the payload.
__mcp_ask() {
    local file=MCP_TOOL_$1_FILE inline=MCP_TOOL_$1_JSON
    file=${!file:-} inline=${!inline:-}
    [ -n "$inline" ] || inline='{}'
    if [ -f "$file" ]; then
        __mcp_value=$(__mcp_jq -rc "$2" <"$file" 2>/dev/null)
    elif ! __mcp_ask_flat "$inline" "$2"; then
        __mcp_value=$(__mcp_jq -rc "$2" <<<"$inline" 2>/dev/null)
    fi
}

__MCP_SIMPLE_FILTER='^\.([A-Za-z_][A-Za-z0-9_]*)([[:space:]]*//[[:space:]]*empty)?$'

# __mcp_ask_flat JSON FILTER: __mcp_value without a process, for `.name` and `.name // empty`. In an object that has no
# nesting and no escapes, `"name":` can only be a key. Fails when it cannot say; then the tool is asked.
__mcp_ask_flat() {
    local json=$1 key or_empty pattern
    [[ $2 =~ $__MCP_SIMPLE_FILTER ]] || return 1
    key=${BASH_REMATCH[1]} or_empty=${BASH_REMATCH[2]:-}
    case $json in '{'*'}') ;; *) return 1 ;; esac
    case ${json#?} in *[\{\[\\]*) return 1 ;; esac

    pattern="\"$key\"[[:space:]]*:[[:space:]]*(\"([^\"]*)\"|true|false|null|-?[0-9]{1,15})[[:space:]]*[,}]"
    if [[ $json =~ $pattern ]]; then
        __mcp_value=${BASH_REMATCH[1]}
        case $__mcp_value in
        '"'*) __mcp_value=${BASH_REMATCH[2]:-} or_empty="" ;;
        0?* | -0*) return 1 ;;
        esac
    else
        case $json in *"\"$key\""*) return 1 ;; esac
        __mcp_value=null
    fi
    if [ -n "$or_empty" ]; then
        case $__mcp_value in null | false) __mcp_value="" ;; esac
    fi
}

# __mcp_given FILTER: __mcp_value is the argument; fails when there is none.
__mcp_given() {
    __mcp_value=""
    __mcp_json_ready && __mcp_ask ARGS "$1" && [ -n "$__mcp_value" ] && [ "$__mcp_value" != null ]
}

mcp_args_raw() {
    __mcp_hush
    __mcp_payload ARGS
    __mcp_unhush
}

mcp_meta_raw() {
    __mcp_hush
    __mcp_payload META
    __mcp_unhush
}

mcp_args_get() {
    local filter=${1-} default="" has_default="" status=0
    while [ $# -gt 1 ]; do
        if [ "$2" = --default ]; then
            default=${3-} has_default=1
        fi
        shift
    done
    __mcp_hush
    __mcp_value=""
    if ! __mcp_json_ready; then
        __mcp_warn "mcp_args_get: JSON tooling unavailable; use mcp_args_raw instead"
        status=1
    else
        __mcp_ask ARGS "$filter" || status=$?
        if [ "$status" -ne 0 ]; then
            __mcp_warn "mcp_args_get: filter failed: $filter"
            __mcp_value=""
        fi
    fi
    if [ -n "$has_default" ]; then
        case $__mcp_value in '' | null) __mcp_value=$default status=0 ;; esac
    fi
    printf '%s' "$__mcp_value"
    __mcp_unhush
    return "$status"
}

mcp_meta_get() {
    local status=0
    __mcp_hush
    if ! __mcp_json_ready; then
        __mcp_warn "mcp_meta_get: JSON tooling unavailable; use mcp_meta_raw instead"
        status=1
    else
        __mcp_ask META "${1-}" || status=$?
        [ -z "$__mcp_value" ] || printf '%s\n' "$__mcp_value"
    fi
    __mcp_unhush
    return "$status"
}

mcp_args_require() {
    local filter=${1-} message=${2-}
    __mcp_hush
    __mcp_given "$filter" || mcp_fail_invalid_args "${message:-$filter is required}"
    printf '%s' "$__mcp_value"
    __mcp_unhush
}

__mcp_fail_missing() {
    [ "${MCPBASH_MODE:-full}" != minimal ] || mcp_fail_invalid_args "$1 requires JSON tooling or a default"
    mcp_fail_invalid_args "$1 is required"
}

mcp_args_bool() {
    local filter=${1-} default="" has_default=""
    [ $# -eq 0 ] || shift
    if [ "${1-}" = --default ]; then
        default=${2-} has_default=1
    fi
    __mcp_hush
    if ! __mcp_given "$filter"; then
        [ -n "$has_default" ] || __mcp_fail_missing "$filter"
        __mcp_value=$default
    fi
    case $__mcp_value in true | 1) printf true ;; *) printf false ;; esac
    __mcp_unhush
}

mcp_args_int() {
    local filter=${1-} default="" has_default="" min="" max=""
    [ $# -eq 0 ] || shift
    while [ $# -gt 0 ]; do
        case $1 in
        --default) default=${2-} has_default=1 ;;
        --min) min=${2-} ;;
        --max) max=${2-} ;;
        *) break ;;
        esac
        shift
        [ $# -eq 0 ] || shift
    done
    if [ -n "$min" ] && [ -n "$max" ] && ! [ "$min" -le "$max" ] 2>/dev/null; then
        mcp_fail_invalid_args "mcp_args_int: --min cannot exceed --max"
    fi

    __mcp_hush
    if ! __mcp_given "$filter"; then
        [ -n "$has_default" ] || __mcp_fail_missing "$filter"
        __mcp_value=$default
    fi
    # 5.0 is a whole number too; some tools print it so.
    case $__mcp_value in *.*)
        case ${__mcp_value#*.} in '' | *[!0]*) ;; *) __mcp_value=${__mcp_value%%.*} ;; esac
        ;;
    esac
    case ${__mcp_value#-} in '' | *[!0123456789]*) mcp_fail_invalid_args "$filter must be an integer" ;; esac
    if [ -n "$min" ] && ! [ "$__mcp_value" -ge "$min" ] 2>/dev/null; then
        mcp_fail_invalid_args "$filter must be >= $min"
    fi
    if [ -n "$max" ] && ! [ "$__mcp_value" -le "$max" ] 2>/dev/null; then
        mcp_fail_invalid_args "$filter must be <= $max"
    fi
    printf '%s' "$__mcp_value"
    __mcp_unhush
}

# ---- Progress, logs, cancellation -----------------------------------------------------------------------------------

# A notification is one line and one write: the streams are pipes, and several processes of a tool may write to them.

mcp_progress() {
    local percent=${1-} message=${2-} total=${3-} token
    if [ -z "$MCP_PROGRESS_TOKEN" ] || [ -z "$MCP_PROGRESS_STREAM" ]; then return 0; fi

    __mcp_uint "${percent%%.*}" 0
    percent=$__mcp_number
    [ "$percent" -le 100 ] || percent=100
    if __mcp_is_uint "$total"; then
        total=",\"total\":$((10#$total))"
    else
        total=""
    fi
    token=$MCP_PROGRESS_TOKEN
    case ${token#-} in
    0 | [123456789]*)
        case ${token#-} in *[!0123456789]*) token="" ;; esac
        ;;
    *) token="" ;;
    esac
    if [ -z "$token" ]; then
        __mcp_quote "$MCP_PROGRESS_TOKEN"
        token=$__mcp_quoted
    fi
    __mcp_quote "$message"
    printf '{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":%s%s,"message":%s}}\n' \
        "$token" "$percent" "$total" "$__mcp_quoted" 2>/dev/null >>"$MCP_PROGRESS_STREAM" || true
}

# __mcp_alive: tells the server that work goes on, without a figure. On a pipe this is an empty line.
__mcp_alive() {
    if [ -z "$MCP_PROGRESS_STREAM" ]; then return 0; fi
    if [ -f "$MCP_PROGRESS_STREAM" ]; then
        touch "$MCP_PROGRESS_STREAM" 2>/dev/null || true
    else
        printf '\n' 2>/dev/null >>"$MCP_PROGRESS_STREAM" || true
    fi
}

mcp_log() {
    local level=${1-} logger=${2-} data=${3-} lower
    case $level in
    debug | info | notice | warning | error | critical | alert | emergency) ;;
    *)
        lower=$(printf '%s' "$level" | tr '[:upper:]' '[:lower:]')
        case $lower in
        debug | info | notice | warning | error | critical | alert | emergency) level=$lower ;;
        *)
            __mcp_warn "mcp_log: invalid level '$level', defaulting to 'info'"
            level=info
            ;;
        esac
        ;;
    esac
    if [ -z "$MCP_LOG_STREAM" ]; then return 0; fi

    # Whoever passes plain words where JSON belongs still gets a log line.
    case $data in
    '{'* | '['* | '"'*) data=${data//$'\n'/ } ;;
    true | false | null) ;;
    '') data=null ;;
    *) if ! [[ $data =~ ^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?$ ]]; then
        __mcp_quote "$data"
        data=$__mcp_quoted
    fi ;;
    esac
    __mcp_quote "$logger"
    printf '{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"%s","logger":%s,"data":%s}}\n' \
        "$level" "$__mcp_quoted" "$data" 2>/dev/null >>"$MCP_LOG_STREAM" || true
}

__mcp_log_text() {
    if [ -z "$MCP_LOG_STREAM" ]; then return 0; fi
    __mcp_quote "$3"
    mcp_log "$1" "$2" "$__mcp_quoted"
}

mcp_log_debug() { __mcp_log_text debug "${1-}" "${2-}"; }
mcp_log_info() { __mcp_log_text info "${1-}" "${2-}"; }
mcp_log_warn() { __mcp_log_text warning "${1-}" "${2-}"; }
mcp_log_error() { __mcp_log_text error "${1-}" "${2-}"; }

mcp_debug() {
    if [ -z "${MCPBASH_DEBUG_LOG:-}" ]; then return 0; fi
    local IFS=' ' now
    # Bash 3.2 has no clock of its own.
    printf -v now '%(%H:%M:%S)T' -1 2>/dev/null || now=$(date +%H:%M:%S 2>/dev/null) || now='??:??:??'
    printf '[%s] %s\n' "$now" "$*" 2>/dev/null >>"$MCPBASH_DEBUG_LOG" || true
}

mcp_is_cancelled() { [ -n "$MCP_TOOL_CANCELLATION_FILE" ] && [ -e "$MCP_TOOL_CANCELLATION_FILE" ]; }

# ---- Results --------------------------------------------------------------------------------------------------------

mcp_fail() {
    local code=${1-} message=${2-} data=${3-} sign=""
    case $code in -*) sign=- ;; esac
    code=${code#[-+]}
    if __mcp_is_uint "$code"; then
        code=$sign$((10#$code))
    else
        code=-32603
    fi
    [ -n "$message" ] || message="Tool failed"
    if [ -n "$data" ] && __mcp_one_json "$data"; then data=$__mcp_json; else data=null; fi
    __mcp_quote "$message"

    local failure="{\"code\":$code,\"message\":$__mcp_quoted,\"data\":$data}"
    # The file is what counts: inside `$(…)` only the subshell ends here.
    [ -z "${MCP_TOOL_ERROR_FILE:-}" ] || printf '%s\n' "$failure" 2>/dev/null >"$MCP_TOOL_ERROR_FILE" || true
    printf '%s\n' "$failure"
    __mcp_warn "$message"
    exit 1
}

mcp_fail_invalid_args() { mcp_fail -32602 "${1:-Invalid params}" "${2-}"; }

mcp_emit_text() { printf '%s' "${1-}"; }

mcp_emit_json() {
    if __mcp_one_json "${1-}"; then
        printf '%s' "$__mcp_json"
    else
        printf '%s' "${1-}"
    fi
}

mcp_result_text() {
    __mcp_quote "${1-}"
    printf '{"content":[{"type":"text","text":%s}],"isError":false}\n' "$__mcp_quoted"
}

mcp_result_success() {
    local data=${1-} envelope
    if [ -z "$data" ]; then
        mcp_result_error '{"type":"internal_error","message":"Empty data passed to mcp_result_success"}'
        return 0
    fi
    __mcp_uint "${MCPBASH_MAX_TEXT_BYTES:-}" 102400
    __mcp_uint "${2-}" "$__mcp_number"

    envelope="{\"success\":true,\"result\":$data}"
    if ! __mcp_json_ready || __mcp_is_flat_object "$data"; then
        __mcp_bytes "$envelope"
        if [ "$__mcp_size" -le "$__mcp_number" ]; then
            __mcp_quote "$envelope"
            printf '{"content":[{"type":"text","text":%s}],"structuredContent":%s,"isError":false}\n' "$__mcp_quoted" "$envelope"
            return 0
        fi
    fi
    if ! __mcp_json_ready; then
        printf '{"content":[{"type":"text","text":"Success: response too large for text content"}],"structuredContent":%s,"isError":false}\n' "$envelope"
        return 0
    fi
    __mcp_jq -c -s --argjson max "$__mcp_number" '
        def told: . as $data
            | if type == "array" then "Success: array with \(length) items"
              elif type == "object" then "Success: object with \(length) keys"
              else "Success: " + ($data | tostring | .[0:100]) end;
        if length != 1 then {
            content: [{type: "text", text: "Error: input must be single JSON value"}],
            structuredContent: {success: false, error:
                {type: "internal_error", message: "Input contained multiple JSON values", count: length}},
            isError: true
        } else
            {success: true, result: .[0]} as $envelope
            | ($envelope | tojson) as $whole
            | (if ($whole | utf8bytelength) <= $max then $whole else (.[0] | told) end) as $text
            | {content: [{type: "text", text: $text}], structuredContent: $envelope, isError: false}
        end' <<<"$data" 2>/dev/null ||
        mcp_result_error '{"type":"internal_error","message":"Invalid JSON passed to mcp_result_success"}'
}

# __mcp_print_error TEXT ERROR: both are JSON.
__mcp_print_error() {
    printf '{"content":[{"type":"text","text":%s}],"structuredContent":{"success":false,"error":%s},"isError":true}\n' "$1" "$2"
}

mcp_result_error() {
    local error=${1-} message raw
    [ -n "$error" ] || error='{"type":"internal_error","message":"Unknown error (empty error object)"}'
    if __mcp_json_ready && __mcp_jq -c -s '
        (if length != 1 then
            {type: "internal_error", message: "Error payload must be single JSON value", raw: "multiple values: \(length)"}
        elif (.[0] | type) != "object" then
            {type: "internal_error", message: "Error payload must be an object", raw: (.[0] | tostring)}
        else
            .[0] | .type = (.type // "internal_error") | .message = (.message // "Unknown error")
        end)
        | {content: [{type: "text", text: (.message | tostring)}], structuredContent: {success: false, error: .}, isError: true}
    ' <<<"$error" 2>/dev/null; then
        return 0
    fi

    message="Invalid error JSON passed to mcp_result_error"
    if ! __mcp_json_ready; then
        message="Unknown error"
        raw='"message"[[:space:]]*:[[:space:]]*"([^"]*)"'
        if [[ $error =~ $raw ]]; then message=${BASH_REMATCH[1]}; fi
    fi
    __mcp_quote "$error"
    raw=$__mcp_quoted
    __mcp_quote "$message"
    __mcp_print_error "$__mcp_quoted" "{\"type\":\"internal_error\",\"message\":$__mcp_quoted,\"raw\":$raw}"
}

mcp_error() {
    local type=${1:-internal_error} message=${2:-Unknown error} hint="" data="" error text
    shift $(($# < 2 ? $# : 2))
    while [ $# -gt 0 ]; do
        case $1 in
        --hint) hint=${2-} ;;
        --data) data=${2-} ;;
        *)
            shift
            continue
            ;;
        esac
        shift $(($# < 2 ? $# : 2))
    done

    __mcp_quote "$type"
    error="{\"type\":$__mcp_quoted"
    __mcp_quote "$message"
    text=$__mcp_quoted
    error="$error,\"message\":$text"
    if [ -n "$hint" ]; then
        __mcp_quote "$hint"
        error="$error,\"hint\":$__mcp_quoted"
    fi
    if [ -n "$data" ]; then
        if __mcp_one_json "$data"; then
            data=$__mcp_json
        elif __mcp_json_ready; then
            __mcp_quote "$data"
            data="{\"_invalid_json\":$__mcp_quoted}"
        fi
        [ "$data" = null ] || error="$error,\"data\":$data"
    fi

    mcp_log_debug mcp_error "type=$type: $message"
    [ -z "$hint" ] || mcp_log_warn mcp_error "type=$type hint: $message"
    __mcp_print_error "$text" "$error}"
}

mcp_result_text_with_resource() {
    local data=${1-} list="" path="" mime="" uri="" has_path=""
    [ $# -eq 0 ] || shift
    while [ $# -gt 0 ]; do
        case $1 in
        --path)
            __mcp_add_resource
            path=${2-} mime="" uri="" has_path=1
            ;;
        --mime) mime=${2-} ;;
        --uri) uri=${2-} ;;
        *)
            mcp_log_debug sdk "mcp_result_text_with_resource: unknown flag ignored: $1"
            shift
            continue
            ;;
        esac
        shift $(($# < 2 ? $# : 2))
    done
    __mcp_add_resource

    if [ -n "$has_path" ]; then
        if [ -n "${MCP_TOOL_RESOURCES_FILE:-}" ]; then
            printf '[%s]' "${list#,}" >"$MCP_TOOL_RESOURCES_FILE"
        else
            mcp_log_warn sdk "mcp_result_text_with_resource: MCP_TOOL_RESOURCES_FILE not set, resources will not be embedded"
        fi
    fi
    mcp_result_success "$data"
}

# Adds the caller's `path`, `mime` and `uri` to its `list`. The server finds the type of a file that has none here.
__mcp_add_resource() {
    if [ -z "$has_path" ]; then return 0; fi
    if [ -z "$path" ]; then
        mcp_log_debug sdk "mcp_result_text_with_resource: empty path, skipping"
        return 0
    fi
    if [ ! -f "$path" ] || [ ! -r "$path" ]; then
        mcp_log_warn sdk "mcp_result_text_with_resource: not a readable file, skipping path=$path"
        return 0
    fi
    __mcp_quote "$path"
    list="$list,{\"path\":$__mcp_quoted"
    if [ -n "$mime" ]; then
        __mcp_quote "$mime"
        list="$list,\"mimeType\":$__mcp_quoted"
    fi
    if [ -n "$uri" ]; then
        __mcp_quote "$uri"
        list="$list,\"uri\":$__mcp_quoted"
    fi
    list="$list}"
}

mcp_extract_cli_error() {
    local out=${1-} err=${2-} status=${3-} found=""
    case $out in *'{'*)
        if __mcp_json_ready; then
            found=$(__mcp_jq -r -s '
                if length == 1 and (.[0] | type) == "object" then .[0] else empty end
                | [
                    (if (.error | type) == "object" then .error.message else null end),
                    (if (.error | type) == "string" then .error else null end),
                    (if .success == false or .ok == false or .status == "error" then .message else null end),
                    (if (.errors | type) == "array" and (.errors[0] | type) == "object" then .errors[0].message else null end)
                ]
                | map(select(. != null)) | .[0] // empty' <<<"$out" 2>/dev/null) || found=""
        fi
        ;;
    esac
    printf '%s' "${found:-${err:-CLI exited with code $status}}"
}

# ---- Large results --------------------------------------------------------------------------------------------------

# The size of a compact array is the size of its elements and the commas between them, so one pass finds how many fit.
# `at` is the array, `$path` how the caller wrote it.
__MCP_TRUNCATE='
    def size: tojson | utf8bytelength;
    def refused($type; $message): {result: null, truncated: false, error: {type: $type, message: $message}};
    def fitting($room):
        reduce .[] as $item ({kept: 0, used: 0, full: false};
            if .full then . else
                (.used + ($item | size) + (if .kept > 0 then 1 else 0 end)) as $used
                | if $used > $room then .full = true else {kept: (.kept + 1), used: $used, full: false} end
            end)
        | .kept;
    def cut($path):
        (at | length) as $total
        | if $total == 0 or size <= $max then {result: ., truncated: false, kept: $total, total: $total}
          else (at |= [] | size) as $frame
            | if $frame > $max then
                refused("output_too_large"; "Response too large (\($frame) bytes) even with empty array at \($path)")
              else (at | fitting($max - $frame)) as $kept
                | {result: (at |= .[:$kept]), truncated: true, kept: $kept, total: $total}
              end
          end;
    def cut_array:
        length as $total
        | if (.[:1] | size) > $max then
            {result: [], truncated: true, kept: 0, total: $total, _warning: "individual items exceed max_bytes"}
          else fitting($max - 2) as $kept
            | {result: .[:$kept], truncated: true, kept: $kept, total: $total}
          end;
    if length != 1 then length else .[0]
        | if $path != "" then
            (try (at | type) catch "error") as $type
            | if $type == "array" then cut($path)
              elif $type == "null" then refused("path_not_found"; "Path not found: " + $path)
              elif $type == "error" then refused("invalid_path"; "Invalid path or malformed JSON: " + $path)
              else refused("invalid_array_path"; "Path is not an array: " + $path) end
          elif size <= $max then {result: ., truncated: false}
          elif type == "array" then cut_array
          elif type == "object" and (.results | type) == "array" then cut(".results")
          else refused("output_too_large"; "Response too large (\(size) bytes) and cannot be safely truncated (not an array)")
          end
    end'

mcp_json_truncate() {
    local json="" max="" path="" position=0 array result message
    while [ $# -gt 0 ]; do
        if [ "$1" = --array-path ]; then
            case ${2-} in '' | --*)
                __mcp_refuse_truncation invalid_path_syntax "--array-path requires a value"
                return 0
                ;;
            esac
            path=$2
            shift
        else
            case $position in 0) json=$1 ;; 1) max=$1 ;; esac
            position=$((position + 1))
        fi
        shift
    done
    __mcp_uint "${MCPBASH_MAX_TOOL_OUTPUT_SIZE:-}" 10485760
    __mcp_uint "$max" "$__mcp_number"

    if ! __mcp_json_ready; then
        printf '{"result":%s,"truncated":false,"_warning":"truncation unavailable in minimal mode"}\n' "$json"
        return 0
    fi
    # The path becomes a part of the program, so it may hold names and dots and nothing else. A complaint about the
    # JSON itself goes first.
    array=${path:-.results}
    [[ $array =~ ^(\.[a-zA-Z_][a-zA-Z0-9_]*)+$ ]] || array=""
    result=$(__mcp_jq -c -s --argjson max "$__mcp_number" --arg path "$path" "def at: ${array:-.}; $__MCP_TRUNCATE" \
        <<<"$json" 2>/dev/null) || result=""
    case $result in
    '{'*)
        if [ -n "$array" ]; then
            printf '%s\n' "$result"
        else
            __mcp_refuse_truncation invalid_path_syntax "Invalid path syntax: $path (must be .key or .key.nested format)"
        fi
        return 0
        ;;
    0) message="Empty input: expected exactly one JSON value" ;;
    '') message="Invalid JSON: parse error" ;;
    *) message="Multiple JSON values found ($result): expected exactly one" ;;
    esac
    __mcp_quote "$json"
    __mcp_refuse_truncation invalid_json "$message" ",\"raw\":$__mcp_quoted"
}

__mcp_refuse_truncation() {
    __mcp_quote "$2"
    printf '{"result":null,"truncated":false,"error":{"type":"%s","message":%s%s}}\n' "$1" "$__mcp_quoted" "${3-}"
}

# ---- Paths and roots ------------------------------------------------------------------------------------------------

# __mcp_resolve PATH [lexically]: __mcp_path is PATH made absolute, without `.`, `..` and links (links stay when
# lexically). What does not exist is kept as it is written, so a file that is yet to be made has a path too.
__mcp_resolve() {
    local rest=${1:-.} how=${2-} part target links=0
    case ${OSTYPE:-} in msys* | cygwin*) rest=$(cygpath -u -- "$rest" 2>/dev/null) || rest=${1:-.} ;; esac
    case $rest in /*) ;; *) rest=$PWD/$rest ;; esac

    __mcp_path=""
    while [ -n "$rest" ]; do
        part=${rest%%/*}
        case $rest in */*) rest=${rest#*/} ;; *) rest="" ;; esac
        case $part in
        '' | .) continue ;;
        ..)
            __mcp_path=${__mcp_path%/*}
            continue
            ;;
        esac
        if [ -z "$how" ] && [ -L "$__mcp_path/$part" ] && [ "$links" -lt 40 ]; then
            links=$((links + 1))
            target=$(readlink "$__mcp_path/$part") || target=$part
            case $target in /*) __mcp_path="" ;; esac
            rest=$target/$rest
        else
            __mcp_path=$__mcp_path/$part
        fi
    done
    : "${__mcp_path:=/}"
}

mcp_path_collapse() {
    __mcp_resolve "${1-}" lexically
    printf '%s' "$__mcp_path"
}

mcp_path_normalize() {
    local how=""
    while [ $# -gt 0 ]; do
        case $1 in
        --physical) how="" ;;
        --logical) how=lexically ;;
        --)
            shift
            break
            ;;
        *) break ;;
        esac
        shift
    done
    __mcp_resolve "${1-}" "$how"
    printf '%s' "$__mcp_path"
}

mcp_roots_list() { printf '%s' "${MCP_ROOTS_PATHS:-}"; }

mcp_roots_count() { printf '%s' "${MCP_ROOTS_COUNT:-0}"; }

mcp_roots_contains() {
    local path root
    __mcp_resolve "${1-}"
    path=$__mcp_path
    while IFS= read -r root; do
        [ -n "$root" ] || continue
        __mcp_resolve "$root"
        root=${__mcp_path%/}/
        # Compared as text, not as a pattern: a folder may be called `[a]*`.
        if [ "$path" = "${root%/}" ] || [ "${path:0:${#root}}" = "$root" ]; then return 0; fi
    done <<<"${MCP_ROOTS_PATHS:-}"
    return 1
}

mcp_require_path() {
    local filter=${1-} single="" optional="" path count
    [ $# -eq 0 ] || shift
    while [ $# -gt 0 ]; do
        case $1 in
        --default-to-single-root) single=1 ;;
        --allow-empty) optional=1 ;;
        *) break ;;
        esac
        shift
    done
    [ -n "$filter" ] || mcp_fail_invalid_args "mcp_require_path: argument pointer is required"
    __mcp_uint "${MCP_ROOTS_COUNT:-0}" 0
    count=$__mcp_number

    path=""
    if __mcp_given "$filter"; then path=$__mcp_value; fi
    if [ -z "$path" ] && [ -n "$single" ]; then
        [ "$count" -eq 1 ] || mcp_fail_invalid_args "$filter is required when zero or multiple roots are configured"
        path=${MCP_ROOTS_PATHS:-}
        path=${path%%$'\n'*}
    fi
    if [ -z "$path" ]; then
        [ -n "$optional" ] || mcp_fail_invalid_args "$filter is required"
        return 0
    fi
    __mcp_resolve "$path"
    path=$__mcp_path
    if [ "$count" -gt 0 ] && ! mcp_roots_contains "$path"; then
        mcp_fail_invalid_args "$filter is outside configured MCP roots"
    fi
    printf '%s' "$path"
}

# ---- Questions to the user ------------------------------------------------------------------------------------------

# A script may be run again from the top with the answers it already got, so a question needs a name that is the same
# in every run: a checksum of what is asked and, for a question asked again, how often. Functions run in `$(…)`, hence
# the count is kept in a file.
if [ -z "${MCP_ELICIT_RUN:-}" ]; then
    # Inherited by scripts that this one starts: they ask in the same run.
    export MCP_ELICIT_RUN=$$-$RANDOM$RANDOM
fi

# __mcp_name_question TEXT: __mcp_key is the name.
__mcp_name_question() {
    local sum times=0 file
    sum=$(printf '%s' "$1" | cksum)
    sum=${sum%% *}
    __mcp_key=elicit-$sum
    if [ -z "${MCP_CALL_DIR:-}" ]; then return 0; fi
    file=$MCP_CALL_DIR/elicit-$MCP_ELICIT_RUN-$sum
    if [ -r "$file" ]; then IFS= read -r times <"$file" || true; fi
    __mcp_uint "$times" 0
    times=$((__mcp_number + 1))
    printf '%s\n' "$times" 2>/dev/null >"$file" || true
    [ "$times" -eq 1 ] || __mcp_key=$__mcp_key-$times
}

# __mcp_question WHO VERB MEMBERS SECONDS: prints the answer. MEMBERS is the inside of a JSON object.
__mcp_question() {
    local who=$1 verb=$2 members=$3 seconds=$4
    if [ "${MCP_ELICIT_SUPPORTED:-0}" != 1 ]; then
        __mcp_warn "$who: Client does not support elicitation"
        printf '{"action":"decline","content":null}'
        return 1
    fi
    if [ -n "${ZCP_OUT:-}" ] && [ -n "${ZCP_IN:-}" ]; then
        __mcp_question_by_channel "$who" "$verb" "$members" "$seconds"
    elif [ -n "${MCP_ELICIT_REQUEST_FILE:-}" ] && [ -n "${MCP_ELICIT_RESPONSE_FILE:-}" ]; then
        __mcp_question_by_file "$who" "$verb" "$members" "$seconds"
    else
        __mcp_warn "$who: Elicitation environment not configured"
        printf '{"action":"error","content":null}'
        return 1
    fi
}

# The server keeps the time here: an answer that came after we stopped listening would answer the next question.
__mcp_question_by_channel() {
    local answer="" close='}'
    __mcp_name_question "$3"
    printf '%s %s {%s%s}\n' "$2" "$__mcp_key" "$3" "${4:+,\"timeoutSecs\":$4}" >>"$ZCP_OUT"
    IFS= read -r answer <"$ZCP_IN" || true
    case $answer in
    *'"action"'*'"content"'* | *'"content"'*'"action"'*) printf '%s' "$answer" ;;
    *'"action"'*) printf '%s,"content":null}' "${answer%"$close"}" ;;
    *)
        __mcp_warn "$1: no answer: ${answer:-the server closed the channel}"
        printf '{"action":"error","content":null}'
        return 1
        ;;
    esac
}

__mcp_question_by_file() {
    local mode=form turns=0 request=$MCP_ELICIT_REQUEST_FILE response=$MCP_ELICIT_RESPONSE_FILE
    [ "$2" = ask ] || mode=url
    __mcp_uint "${4:-${MCPBASH_ELICITATION_TIMEOUT:-}}" 30
    rm -f "$response"
    printf '{%s,"mode":"%s"}' "$3" "$mode" >"$request.tmp.$$"
    mv "$request.tmp.$$" "$request"
    while [ ! -f "$response" ]; do
        if mcp_is_cancelled; then
            rm -f "$request"
            printf '{"action":"cancel","content":null}'
            return 1
        fi
        if [ "$turns" -ge $((__mcp_number * 10)) ]; then
            rm -f "$request"
            __mcp_warn "$1: Timeout waiting for user response"
            printf '{"action":"error","content":null}'
            return 1
        fi
        sleep 0.1
        turns=$((turns + 1))
    done
    cat "$response"
    rm -f "$response"
}

# mcp_elicit MESSAGE SCHEMA [SECONDS] [form|url]
mcp_elicit() {
    local schema=${2-} seconds=${3:-${MCPBASH_ELICITATION_TIMEOUT:-}}
    if [ "${4:-form}" = url ]; then
        mcp_elicit_url "$1" "$schema" "$seconds"
        return
    fi
    [ -n "$schema" ] || schema='{"type":"object","properties":{}}'
    schema=${schema//$'\r'/ }
    __mcp_is_uint "$seconds" || seconds=""
    __mcp_quote "$1"
    __mcp_question mcp_elicit ask "\"message\":$__mcp_quoted,\"schema\":${schema//$'\n'/ }" "$seconds"
}

# mcp_elicit_url MESSAGE URL [SECONDS]
mcp_elicit_url() {
    local message seconds=${3:-${MCPBASH_ELICITATION_TIMEOUT:-}}
    __mcp_is_uint "$seconds" || seconds=""
    __mcp_quote "$1"
    message=$__mcp_quoted
    __mcp_quote "$2"
    __mcp_question mcp_elicit_url visit "\"message\":$message,\"url\":$__mcp_quoted" "$seconds"
}

# __mcp_elicit_field MESSAGE FIELD SCHEMA: FIELD is a JSON string.
__mcp_elicit_field() {
    mcp_elicit "$1" "{\"type\":\"object\",\"properties\":{$2:$3},\"required\":[$2]}"
}

mcp_elicit_string() {
    __mcp_quote "${2:-value}"
    __mcp_elicit_field "$1" "$__mcp_quoted" '{"type":"string"}'
}

mcp_elicit_confirm() { __mcp_elicit_field "$1" '"confirmed"' '{"type":"boolean"}'; }

mcp_elicit_choice() {
    local message=$1
    shift
    __mcp_quote_list "$@"
    __mcp_elicit_field "$message" '"choice"' "{\"type\":\"string\",\"enum\":$__mcp_quoted_list}"
}

mcp_elicit_multi_choice() {
    local message=$1
    shift
    __mcp_quote_list "$@"
    __mcp_elicit_field "$message" '"choices"' "{\"type\":\"array\",\"items\":{\"type\":\"string\",\"enum\":$__mcp_quoted_list}}"
}

# __mcp_titled VALUE:TITLE...: __mcp_options is a JSON array of constants with titles.
__mcp_titled() {
    local option value list=""
    for option in "$@"; do
        __mcp_quote "${option%%:*}"
        value=$__mcp_quoted
        __mcp_quote "${option#*:}"
        list="$list,{\"const\":$value,\"title\":$__mcp_quoted}"
    done
    __mcp_options="[${list#,}]"
}

mcp_elicit_titled_choice() {
    local message=$1
    shift
    __mcp_titled "$@"
    __mcp_elicit_field "$message" '"choice"' "{\"type\":\"string\",\"oneOf\":$__mcp_options}"
}

mcp_elicit_titled_multi_choice() {
    local message=$1
    shift
    __mcp_titled "$@"
    __mcp_elicit_field "$message" '"choices"' "{\"type\":\"array\",\"items\":{\"anyOf\":$__mcp_options}}"
}

# ---- Configuration --------------------------------------------------------------------------------------------------

# __mcp_read FILE: __mcp_text is what the file holds, or empty.
__mcp_read() {
    __mcp_text=""
    if [ -f "${1-}" ] && [ -r "$1" ]; then __mcp_text=$(<"$1"); fi
}

# __mcp_merge DEFAULTS EXAMPLE FILE ENV ENV-FILE: __mcp_merged is the one object they make, the later winning;
# __mcp_usable has a `1` for each that is JSON and a `0` for each that is not.
__mcp_merge() {
    local answer text
    if __mcp_json_ready; then
        __mcp_quote_list "$@"
        answer=$(__mcp_jq -r '
            map(try fromjson catch null) as $all
            | [$all[] | . != null and . != false] as $usable
            | reduce ($all[1], $all[2], (if $usable[3] then $all[3] else $all[4] end)) as $next
                ((if $usable[0] then $all[0] else {} end);
                    if type == "object" and ($next | type) == "object" then . + $next else . end)
            | ($usable | map(if . then "1" else "0" end) | join("")), tojson' <<<"$__mcp_quoted_list")
        __mcp_usable=${answer%%$'\n'*}
        __mcp_merged=${answer#*$'\n'}
        return 0
    fi
    # Nothing here can merge: the strongest source stands alone.
    __mcp_usable="" __mcp_merged='{}'
    for text in "$@"; do
        case $text in
        [\{\[]*)
            __mcp_usable=${__mcp_usable}1
            __mcp_merged=$text
            ;;
        *) __mcp_usable=${__mcp_usable}0 ;;
        esac
    done
}

mcp_config_load() {
    local name="" file="" example="" defaults='{}' loaded=0
    local example_text file_text env_text="" env_file_text=""
    while [ $# -gt 0 ]; do
        case $1 in
        --env) name=${2-} ;;
        --file) file=${2-} ;;
        --example) example=${2-} ;;
        --defaults) defaults=${2-} ;;
        *)
            shift
            continue
            ;;
        esac
        shift $(($# < 2 ? $# : 2))
    done
    __mcp_read "$example"
    example_text=$__mcp_text
    __mcp_read "$file"
    file_text=$__mcp_text
    [ -z "$name" ] || env_text=${!name:-}
    __mcp_read "$env_text"
    env_file_text=$__mcp_text
    __mcp_merge "$defaults" "$example_text" "$file_text" "$env_text" "$env_file_text"
    export MCP_CONFIG_JSON=$__mcp_merged

    if [ "${__mcp_usable:0:1}" = 0 ]; then
        mcp_log_warn config "Invalid JSON in --defaults, using {}"
        defaults='{}'
    fi
    __mcp_note_config "${__mcp_usable:1:1}" "$example" "$example_text" "Loaded example config: $example"
    __mcp_note_config "${__mcp_usable:2:1}" "$file" "$file_text" "Loaded config file: $file"
    if [ "${__mcp_usable:3:1}" = 1 ]; then
        __mcp_note_config 1 "" "" "Loaded config from env var: $name (JSON)"
    elif [ -n "$env_text" ] && [ -f "$env_text" ]; then
        __mcp_note_config "${__mcp_usable:4:1}" "$env_text" "$env_file_text" "Loaded config from env var: $name (file: $env_text)"
    elif [ -n "$env_text" ]; then
        mcp_log_warn config "Env var $name is neither valid JSON nor a file path"
    fi
    if [ "$loaded" -gt 0 ] || [ "$defaults" != '{}' ]; then return 0; fi
    mcp_log_warn config "No configuration sources loaded"
    return 1
}

# __mcp_note_config USABLE PATH TEXT NOTE: logs what became of a source; counts it in the caller's `loaded`.
__mcp_note_config() {
    if [ "$1" = 1 ]; then
        loaded=$((loaded + 1))
        mcp_log_debug config "$4"
    elif [ -n "$3" ]; then
        mcp_log_warn config "Invalid JSON in file: $2"
    fi
}

mcp_config_get() {
    local path=${1-} default="" has_default="" config=${MCP_CONFIG_JSON:-} found="" pattern
    [ $# -eq 0 ] || shift
    if [ "${1-}" = --default ]; then
        default=${2-} has_default=1
    fi
    if [ -z "$path" ]; then
        mcp_log_warn config "mcp_config_get: path required"
        return 1
    fi
    [ -n "$config" ] || config='{}'

    # `found` begins with a mark, for an empty text is a value too.
    if __mcp_json_ready; then
        found=$(__mcp_jq -r "[$path]"' | map(select(. != null)) | if length == 0 then "" else
            "=" + (map(if type == "string" then . else tojson end) | join("\n")) end' <<<"$config" 2>/dev/null) || found=""
    elif [[ $path =~ ^\.([A-Za-z_][A-Za-z0-9_]*)$ ]]; then
        pattern="\"${BASH_REMATCH[1]}\"[[:space:]]*:[[:space:]]*(\"([^\"]*)\"|-?[0-9.]+|true|false)"
        if [[ $config =~ $pattern ]]; then
            found="=${BASH_REMATCH[1]}"
            case $found in '="'*) found="=${BASH_REMATCH[2]:-}" ;; esac
        fi
    fi
    if [ -n "$found" ]; then
        printf '%s' "${found#=}"
    elif [ -n "$has_default" ]; then
        printf '%s' "$default"
    else
        return 1
    fi
}

# ---- Trying again ---------------------------------------------------------------------------------------------------

# __mcp_milliseconds SECONDS: __mcp_number is the same in milliseconds.
__mcp_milliseconds() {
    local whole=${1%%.*} part=""
    case $1 in *.*) part=${1#*.} ;; esac
    part=${part}000
    __mcp_number=$((10#0$whole * 1000 + 10#${part:0:3}))
}

# __mcp_with_jitter MILLISECONDS: __mcp_seconds is up to half as much again, as `sleep` takes it.
__mcp_with_jitter() {
    local time=$(($1 + RANDOM % ($1 / 2 + 1)))
    printf -v __mcp_seconds '%d.%03d' $((time / 1000)) $((time % 1000))
}

# mcp_with_retry ATTEMPTS SECONDS -- COMMAND...: exit codes 1 and 2 are final, from 3 on the command is tried again.
mcp_with_retry() {
    # Long names, because the command may be a function that uses short ones.
    local __mcp_attempts=${1-} __mcp_delay=${2-} __mcp_attempt=1 __mcp_status
    shift $(($# < 2 ? $# : 2))
    if [ "${1-}" = -- ]; then shift; fi
    if ! __mcp_is_uint "$__mcp_attempts"; then
        __mcp_warn "mcp_with_retry: max_attempts must be a positive integer"
        return 1
    fi
    if ! [[ $__mcp_delay =~ ^[0-9]+\.?[0-9]*$ ]]; then
        __mcp_warn "mcp_with_retry: base_delay must be a number"
        return 1
    fi
    __mcp_milliseconds "$__mcp_delay"
    __mcp_delay=$__mcp_number
    while :; do
        __mcp_status=0
        "$@" || __mcp_status=$?
        if [ "$__mcp_status" -le 2 ] || [ "$__mcp_attempt" -ge "$__mcp_attempts" ]; then return "$__mcp_status"; fi
        __mcp_with_jitter "$__mcp_delay"
        mcp_log_debug retry "Attempt $__mcp_attempt/$__mcp_attempts failed (exit $__mcp_status), retrying in ${__mcp_seconds}s"
        sleep "$__mcp_seconds"
        __mcp_delay=$((__mcp_delay * 2))
        __mcp_attempt=$((__mcp_attempt + 1))
    done
}

# ---- Programs that report progress ----------------------------------------------------------------------------------

# mcp_run_with_progress --pattern RE [options] -- COMMAND...
#
# The command's stderr comes through a named pipe, read as it is written. With --progress-file, that file is followed
# instead. The functions below share the variables of this one.
mcp_run_with_progress() {
    local pattern="" extract=json interval=0.2 stdout_file="" rest_file="" progress_file="" total="" dry_run="" quiet=""
    local pid __mcp_fifo __mcp_status=0
    while [ $# -gt 0 ]; do
        case $1 in
        --pattern) pattern=${2-} ;;
        --extract) extract=${2-} ;;
        --interval) interval=${2-} ;;
        --stdout) stdout_file=${2-} ;;
        --stderr-file) rest_file=${2-} ;;
        --progress-file) progress_file=${2-} ;;
        --total) total=${2-} ;;
        --dry-run)
            dry_run=1
            shift
            continue
            ;;
        --quiet)
            quiet=1
            shift
            continue
            ;;
        --)
            shift
            break
            ;;
        *) break ;;
        esac
        shift $(($# < 2 ? $# : 2))
    done
    __mcp_check_progress_options || return 1

    if [ -n "$rest_file" ] && ! : 2>/dev/null >"$rest_file"; then
        mcp_log_warn mcp_run_with_progress "cannot write to stderr-file: $rest_file"
    fi
    if [ -n "$progress_file" ]; then
        [ ! -s "$progress_file" ] || mcp_log_warn mcp_run_with_progress "truncating non-empty progress file: $progress_file"
        : >"$progress_file" || return 1
    fi

    __mcp_fifo=${MCP_CALL_DIR:-${TMPDIR:-/tmp}}/mcp-progress.$$.$RANDOM$RANDOM
    mkfifo -m 600 "$__mcp_fifo" || return 1
    if [ -n "$stdout_file" ]; then
        "$@" 2>"$__mcp_fifo" >"$stdout_file" &
    else
        "$@" 2>"$__mcp_fifo" &
    fi
    pid=$!
    if [ -n "$progress_file" ]; then
        __mcp_follow_file || __mcp_status=$?
    else
        # Bash 3.2 fails to open a pipe when another child ends meanwhile; then the pipe is still there.
        until __mcp_follow_stderr <"$__mcp_fifo"; do
            __mcp_status=$?
            [ -p "$__mcp_fifo" ] || break
            __mcp_status=0
        done
    fi
    if [ "$__mcp_status" -eq 0 ]; then
        wait "$pid" || __mcp_status=$?
    else
        __mcp_stop
    fi
    return "$__mcp_status"
}

__mcp_stop() {
    kill "$pid" || :
    wait "$pid" || :
} 2>/dev/null

__mcp_check_progress_options() {
    local complaint=""
    if [ -z "$pattern" ]; then
        complaint="--pattern is required"
    elif [ "$extract" != json ] && [ "$extract" != match1 ] && [ "$extract" != ratio ]; then
        complaint="unknown extract mode '$extract'"
    elif [ -n "$total" ] && { ! __mcp_is_uint "$total" || [ "$total" -eq 0 ]; }; then
        complaint="--total must be positive integer"
    elif ! [[ $interval =~ ^[0-9]*\.?[0-9]+$ && $interval =~ [1-9] ]]; then
        complaint="--interval must be a positive number"
    elif [ "$extract" = json ] && [ -z "${MCPBASH_JSON_TOOL_BIN:-}" ]; then
        complaint="MCPBASH_JSON_TOOL_BIN required for json extraction mode"
    fi
    if [ -z "$complaint" ]; then return 0; fi
    __mcp_warn "mcp_run_with_progress: $complaint"
    return 1
}

# Stdin is the command's stderr. 130 when the call was cancelled.
__mcp_follow_stderr() {
    local line="" part status gone=""
    # Both ends are open, so the name is not needed any more and nothing is left behind.
    rm -f "$__mcp_fifo"
    while :; do
        status=0
        part=""
        # Only from version 4 on does a read that times out keep what it has.
        if [ "${BASH_VERSINFO[0]}" -ge 4 ]; then
            IFS= read -r -t "$interval" part || status=$?
        else
            IFS= read -r part || status=$?
        fi
        line=$line$part
        if mcp_is_cancelled; then return 130; fi
        if [ "$status" -eq 0 ]; then
            __mcp_progress_line "$line"
            line=""
        elif [ "$status" -le 128 ]; then
            break
        elif ! kill -0 "$pid" 2>/dev/null; then
            # What it wrote last may still be on its way: only when nothing came after it had gone is
            # there no more.
            if [ -n "$gone" ] && [ -z "$part" ]; then break; fi
            gone=1
        fi
    done
    [ -z "$line" ] || __mcp_progress_line "$line"
}

__mcp_follow_file() {
    local line="" part alive=1 reader status=0
    __mcp_log_stderr <"$__mcp_fifo" &
    reader=$!
    while [ -n "$alive" ]; do
        kill -0 "$pid" 2>/dev/null || alive=""
        while IFS= read -r part; do
            __mcp_progress_line "$line$part"
            line=""
        done
        line=$line$part
        if mcp_is_cancelled; then
            status=130
            __mcp_stop
            break
        fi
        [ -z "$alive" ] || sleep "$interval"
    done <"$progress_file"
    [ -z "$line" ] || __mcp_progress_line "$line"
    wait "$reader" || true
    return "$status"
}

__mcp_log_stderr() {
    local line
    rm -f "$__mcp_fifo"
    while IFS= read -r line || [ -n "$line" ]; do
        [ -n "$quiet" ] || mcp_log_debug mcp_run_with_progress "subprocess stderr: $line"
    done
}

__mcp_progress_line() {
    local percent="" message=$1 first second
    if ! [[ $1 =~ $pattern ]]; then
        [ -z "$rest_file" ] || printf '%s\n' "$1" 2>/dev/null >>"$rest_file" || true
        [ -n "$quiet" ] || mcp_log_debug mcp_run_with_progress "subprocess output: $1"
        return 0
    fi
    first=${BASH_REMATCH[1]:-} second=${BASH_REMATCH[2]:-}
    case $extract in
    json) __mcp_progress_from_json "$1" || percent="" ;;
    match1) __mcp_percent "$first" "${total:-100}" ;;
    ratio) __mcp_percent "$first" "$second" ;;
    esac
    if [ -n "$dry_run" ]; then
        if [ -z "$percent" ]; then return 0; fi
        __mcp_quote "$message"
        printf '{"progress":%s,"message":%s}\n' "$percent" "$__mcp_quoted" >&2
    elif [ -n "$percent" ] && [ -n "$MCP_PROGRESS_TOKEN" ]; then
        mcp_progress "$percent" "$message"
    else
        __mcp_alive
    fi
}

# __mcp_percent DONE TOTAL: sets the caller's `percent`, if these are numbers.
__mcp_percent() {
    local done=${1%%.*} total=$2
    if ! __mcp_is_uint "$done" || ! __mcp_is_uint "$total"; then return 0; fi
    done=$((10#$done)) total=$((10#$total))
    [ "$total" -eq 0 ] || percent=$((done * 100 / total))
}

# Sets the caller's `percent` and `message`. An object without nesting and escapes is read without a process.
__mcp_progress_from_json() {
    local found number='"progress"[[:space:]]*:[[:space:]]*([0-9]+)(\.[0-9]+)?[[:space:]]*[,}]'
    local words='"message"[[:space:]]*:[[:space:]]*"([^"]*)"'
    case $1 in
    '{'*[\{\[\\]* | [!\{]* | *[!\}]) ;;
    *)
        [[ $1 =~ $number ]] || return 0
        percent=$((10#${BASH_REMATCH[1]}))
        message=Working...
        if [[ $1 =~ $words ]]; then message=${BASH_REMATCH[1]}; fi
        return 0
        ;;
    esac
    if ! found=$(__mcp_jq -r 'select(.progress != null) | "\(.progress)\n\(.message // "Working...")"' <<<"$1" 2>/dev/null); then
        mcp_log_debug mcp_run_with_progress "not JSON: ${1:0:100}"
        return 1
    fi
    if [ -z "$found" ]; then return 0; fi
    percent=${found%%$'\n'*} message=${found#*$'\n'}
    percent=${percent%%.*}
    __mcp_is_uint "$percent"
}

# ---- Downloads ------------------------------------------------------------------------------------------------------

# mcp_download_safe --url URL --out FILE [--allow HOST]... [--deny HOST]... [options]
#
# Prints {"success":true,"bytes":…,"path":…} or {"success":false,"error":{"type":…,"message":…}}, and never fails.
mcp_download_safe() {
    local kind="" message="" location="" bytes="" out=""
    __mcp_download "$@"
    if [ -z "$kind" ]; then
        __mcp_quote "$out"
        printf '{"success":true,"bytes":%s,"path":%s}' "$bytes" "$__mcp_quoted"
        return 0
    fi
    if [ -n "$location" ]; then
        __mcp_quote "$location"
        location="\"location\":$__mcp_quoted,"
    fi
    __mcp_quote "$message"
    printf '{"success":false,"error":{"type":"%s",%s"message":%s}}' "$kind" "$location" "$__mcp_quoted"
}

mcp_download_safe_or_fail() {
    local kind="" message="" location="" bytes="" out=""
    __mcp_download "$@"
    [ -z "$kind" ] || mcp_fail_invalid_args "Download failed ($kind): $message"
    printf '%s' "$out"
}

# Sets the caller's `out` and `bytes`; or `kind`, `message` and `location` when it went wrong.
__mcp_download() {
    local url="" allow="" deny="" max="" timeout="" agent="" attempts=1 delay=1.0
    local host="" port="" addresses="" attempt=1
    while [ $# -gt 0 ]; do
        case $1 in
        --url) url=${2-} ;;
        --out) out=${2-} ;;
        --allow) allow="$allow ${2-}" ;;
        --deny) deny="$deny ${2-}" ;;
        --max-bytes) max=${2-} ;;
        --timeout) timeout=${2-} ;;
        --user-agent) agent=${2-} ;;
        --retry) attempts=${2-} ;;
        --retry-delay) delay=${2-} ;;
        # A misspelt --allow must not pass unseen.
        -*) __mcp_not_downloaded invalid_params "Unknown option: $1" ;;
        *) __mcp_not_downloaded invalid_params "Unexpected argument: $1" ;;
        esac
        if [ -n "$kind" ]; then return 0; fi
        shift $(($# < 2 ? $# : 2))
    done
    __mcp_check_download
    if [ -n "$kind" ]; then return 0; fi

    __mcp_milliseconds "$delay"
    delay=$__mcp_number
    while :; do
        kind=""
        __mcp_find_host
        [ -n "$kind" ] || __mcp_fetch
        if [ "$kind" != network_error ] || [ "$attempt" -ge "$attempts" ]; then return 0; fi
        __mcp_with_jitter "$delay"
        sleep "$__mcp_seconds"
        delay=$((delay * 2))
        attempt=$((attempt + 1))
    done
}

__mcp_not_downloaded() { kind=$1 message=$2; }

__mcp_check_download() {
    if [ -z "$url" ]; then
        __mcp_not_downloaded invalid_url "--url is required"
    elif [ -z "$out" ]; then
        __mcp_not_downloaded invalid_params "--out is required"
    elif [ "${url#https://}" = "$url" ]; then
        __mcp_not_downloaded invalid_url "URL must use https://"
    elif [ -n "$max" ] && ! __mcp_is_uint "$max"; then
        __mcp_not_downloaded invalid_params "--max-bytes must be a positive integer"
    elif [ -n "$timeout" ] && ! __mcp_is_uint "$timeout"; then
        __mcp_not_downloaded invalid_params "--timeout must be a positive integer"
    elif [ -n "$timeout" ] && [ "$timeout" -gt 60 ]; then
        __mcp_not_downloaded invalid_params "--timeout cannot exceed 60 seconds"
    elif ! __mcp_is_uint "$attempts" || [ "$attempts" -lt 1 ]; then
        __mcp_not_downloaded invalid_params "--retry must be a positive integer"
    elif ! [[ $delay =~ ^[0-9]*\.?[0-9]+$ ]]; then
        __mcp_not_downloaded invalid_params "--retry-delay must be a number (e.g., 0.5, 1, 2.0)"
    elif ! command -v curl >/dev/null 2>&1; then
        __mcp_not_downloaded provider_unavailable "curl is required for HTTPS provider"
    elif ! __mcp_split_host || ! __mcp_host_is_allowed; then
        __mcp_not_downloaded host_blocked "Host blocked by policy"
    fi
}

# Sets `addresses`: everything that the name resolves to, all of it public, for curl to connect to.
__mcp_find_host() {
    __mcp_addresses "$host"
    if [ -z "$addresses" ]; then
        __mcp_not_downloaded network_error "Network request failed: could not resolve host: $host"
        return 0
    fi
    local address
    while IFS= read -r address; do
        __mcp_is_public "$address" || __mcp_not_downloaded host_blocked "Host blocked by policy"
    done <<<"$addresses"
}

# Sets `host` and `port`. Refuses whatever curl might read differently than we do.
__mcp_split_host() {
    local LC_ALL=C authority=${url#https://}
    authority=${authority%%[/?#]*}
    case $url in *[[:cntrl:]\ \\]*) return 1 ;; esac
    case $authority in *@*@*) return 1 ;; esac
    authority=${authority#*@}
    case $authority in
    '['*']') host=${authority#?} host=${host%?} port=443 ;;
    '['*']:'*) host=${authority#?} host=${host%%]*} port=${authority##*]:} ;;
    *:*) host=${authority%%:*} port=${authority#*:} ;;
    *) host=$authority port=443 ;;
    esac
    __mcp_is_uint "$port" || return 1
    __mcp_lower "$host"
    host=$__mcp_lowered
    case $authority in '['*)
        case $host in '' | *[!0123456789abcdef:.]*) return 1 ;; esac
        return 0
        ;;
    esac
    case $host in '' | *[!abcdefghijklmnopqrstuvwxyz0123456789._-]*) return 1 ;; esac
    # 127.1, 0x7f000001, 0177.0.0.1 and 2130706433 are addresses to some programs: only a.b.c.d in plain decimal passes.
    case ${host##*.} in
    0x* | '') return 1 ;;
    *[!0123456789]*) return 0 ;;
    esac
    [[ $host =~ ^(0|[1-9][0-9]{0,2})(\.(0|[1-9][0-9]{0,2})){3}$ ]]
}

# __mcp_lower TEXT: __mcp_lowered.
__mcp_lower() {
    __mcp_lowered=$1
    case $1 in *[ABCDEFGHIJKLMNOPQRSTUVWXYZ]*) __mcp_lowered=$(printf '%s' "$1" | tr '[:upper:]' '[:lower:]') ;; esac
}

# The operator's deny list always holds; the tool's allow list stands in for the operator's.
__mcp_host_is_allowed() {
    if __mcp_host_in "$deny ${MCPBASH_HTTPS_DENY_HOSTS:-}"; then return 1; fi
    allow=${allow:-${MCPBASH_HTTPS_ALLOW_HOSTS:-}}
    if [ -n "${allow//[ ,]/}" ]; then
        __mcp_host_in "$allow"
    else
        case ${MCPBASH_HTTPS_ALLOW_ALL:-} in true | 1 | yes | on) ;; *) return 1 ;; esac
    fi
}

__mcp_host_in() {
    local names name
    IFS=$' ,\t' read -r -a names <<<"${1//$'\n'/ }"
    for name in ${names[@]+"${names[@]}"}; do
        __mcp_lower "$name"
        name=${__mcp_lowered#[}
        if [ "$host" = "${name%]}" ]; then return 0; fi
    done
    return 1
}

# Sets `addresses`, one a line. Resolved here and once: between a check and curl's own lookup a name could change.
__mcp_addresses() {
    case $1 in *:*)
        addresses=$1
        return 0
        ;;
    esac
    if [[ $1 =~ ^[0-9.]+$ ]]; then
        addresses=$1
    elif command -v getent >/dev/null 2>&1; then
        addresses=$(getent ahosts "$1" 2>/dev/null | awk '!seen[$1]++ { print $1 }') || addresses=""
    elif command -v dscacheutil >/dev/null 2>&1; then
        addresses=$(dscacheutil -q host -a name "$1" 2>/dev/null | awk '/address:/ { print $2 }') || addresses=""
    elif command -v dig >/dev/null 2>&1; then
        addresses=$(dig +short "$1" A "$1" AAAA 2>/dev/null | awk '/^[0-9a-fA-F.:]+$/ && !/\.$/') || addresses=""
    elif command -v nslookup >/dev/null 2>&1; then
        addresses=$(nslookup "$1" 2>/dev/null | awk '/^Name:/ { found = 1 } found && /^Address/ { print $NF }') || addresses=""
    fi
}

# __mcp_is_public ADDRESS: not this machine, not a private network, not reserved.
__mcp_is_public() {
    local address
    __mcp_lower "$1"
    address=$__mcp_lowered
    case $address in
    # Of IPv6 only 2000::/3 is public, without the ranges that wrap an IPv4 address and the one for documents.
    *:*) case $address in
        2001:0* | 2001::* | 2001:db8:* | 2002:*) return 1 ;;
        [23][0123456789abcdef][0123456789abcdef][0123456789abcdef]:*) return 0 ;;
        *) return 1 ;;
        esac ;;
    0.* | 10.* | 127.* | 169.254.* | 192.168.* | 172.1[6789].* | 172.2?.* | 172.3[01].*) return 1 ;;
    100.6[456789].* | 100.[789]?.* | 100.1[01]?.* | 100.12[01234567].*) return 1 ;;
    192.0.0.* | 192.0.2.* | 198.1[89].* | 198.51.100.* | 203.0.113.* | 22[456789].* | 2[345]?.*) return 1 ;;
    *.*.*.*) return 0 ;;
    *) return 1 ;;
    esac
}

# One attempt, from the addresses that were checked.
__mcp_fetch() {
    local body report code status=0 pinned=$host
    __mcp_uint "${MCPBASH_HTTPS_TIMEOUT:-}" 15
    __mcp_uint "$timeout" "$__mcp_number"
    timeout=$((__mcp_number > 60 ? 60 : __mcp_number))
    __mcp_uint "${MCPBASH_HTTPS_MAX_BYTES:-}" 10485760
    __mcp_uint "$max" "$__mcp_number"
    max=$((__mcp_number > 20971520 ? 20971520 : __mcp_number))
    : "${agent:=${MCPBASH_HTTPS_USER_AGENT:-mcpbash/${MCPBASH_FRAMEWORK_VERSION:-unknown} (tool-sdk)}}"
    case $host in *:*) pinned="[$host]" ;; esac

    if ! body=$(mktemp "${TMPDIR:-/tmp}/mcp-download.XXXXXX" 2>/dev/null); then
        __mcp_not_downloaded write_error "Could not create temp file"
        return 0
    fi
    # -q: not the user's own settings. A server that does not announce its size is stopped by the limit on files.
    report=$(
        trap '' XFSZ
        ulimit -f $((max / 1024 + 1)) 2>/dev/null || true
        curl -q -g -sS -A "$agent" -o "$body" -w '\n%{http_code} %{size_download} %{redirect_url}' \
            --max-time "$timeout" --connect-timeout "$timeout" --max-filesize "$max" --max-redirs 0 --proto '=https' \
            --resolve "$pinned:$port:${addresses//$'\n'/,}" "$url" 2>&1
    ) || status=$?
    __mcp_judge_fetch
    [ -z "$kind" ] || rm -f "$body"
}

# Reads curl's `status` and `report`: what it complained of, then a line with code, size and redirection.
__mcp_judge_fetch() {
    local last=${report##*$'\n'} size
    report=${report%"$last"}
    report=${report//[[:cntrl:]]/ }
    read -r code bytes location <<<"$last" || true
    bytes=${bytes%%.*}
    size=$(wc -c <"$body") || size=0
    if [ "$status" -eq 63 ] || [ "$size" -gt "$max" ]; then
        __mcp_not_downloaded size_exceeded "Response exceeds max-bytes limit"
    elif [ "$status" -ne 0 ]; then
        read -r report <<<"${report:0:200}" || true
        __mcp_not_downloaded network_error "Network request failed${report:+: $report}"
    else
        case $code in
        2??)
            bytes=$((size))
            mv -f "$body" "$out" 2>/dev/null || __mcp_not_downloaded write_error "Could not write to output path"
            ;;
        3??) if [ -n "$location" ]; then
            __mcp_not_downloaded redirect "URL redirects - use canonical URL or add target to allowlist"
        else
            __mcp_not_downloaded redirect "URL redirects but location unavailable"
        fi ;;
        *) __mcp_not_downloaded network_error "Network request failed: HTTP error: $code" ;;
        esac
    fi
    [ "$kind" = redirect ] || location=""
}

# ---- User interfaces ------------------------------------------------------------------------------------------------

__mcp_here=${BASH_SOURCE[0]%/*}
[ "$__mcp_here" != "${BASH_SOURCE[0]}" ] || __mcp_here=.
if [ -f "$__mcp_here/ui-sdk.sh" ]; then
    # shellcheck source=ui-sdk.sh
    . "$__mcp_here/ui-sdk.sh"
fi
