#!/usr/bin/env bash
# Runs a project's hooks (register.sh, policy.sh, health-checks.sh) and tells the server, in one line of JSON, what they decided.
#
#   bash hooks.sh register FILE
#       {"tools":[…],"resources":[…],"resourceTemplates":[…],"prompts":[…],"completions":[…]}, of these only the kinds
#       that FILE registered, or the object that FILE printed. Fails, and says why on stderr, when FILE does.
#   bash hooks.sh policy FILE NAME METADATA
#       {"allow":true} or {"allow":false,"code":…,"message":…,"data":…}, where a FILE that gives no error gives no code
#   bash hooks.sh health FILE
#       nothing: what FILE says goes to stderr, and it ends as FILE does
#
# shellcheck disable=SC2016

set -euo pipefail

__hooks_here=${BASH_SOURCE[0]%/*}
[ "$__hooks_here" != "${BASH_SOURCE[0]}" ] || __hooks_here=.
# shellcheck source=tool-sdk.sh
. "$__hooks_here/tool-sdk.sh"

__hooks_main() {
    case ${1-} in
    register) __hooks_register "${2:?a file}" ;;
    policy) __hooks_policy "${2:?a file}" "${3:?the name of a tool}" "${4-}" ;;
    health) __hooks_health "${2:?a file}" ;;
    *)
        __mcp_warn "usage: hooks.sh register FILE | hooks.sh policy FILE NAME METADATA | hooks.sh health FILE"
        return 2
        ;;
    esac
}

# ---- What health-checks.sh calls ------------------------------------------------------------------------------------

__hooks_checked() {
    if [ "$1" = 0 ]; then
        printf '%s: there\n' "$2" >&2
    else
        printf '%s: missing\n' "$2" >&2
    fi
    return "$1"
}

mcp_health_check_command() {
    local missing=0
    command -v "$1" >/dev/null 2>&1 || missing=1
    __hooks_checked "$missing" "${2:-the command $1}"
}

mcp_health_check_env() {
    local missing=0
    [ -n "${!1:-}" ] || missing=1
    __hooks_checked "$missing" "${2:-the variable $1}"
}

# Its checks go on after one that fails: how it ends is what counts.
__hooks_health() {
    local ended=0
    # shellcheck disable=SC1090
    (. "$1") >&2 || ended=$?
    return "$ended"
}

# ---- What register.sh calls -----------------------------------------------------------------------------------------

# Registrations go to a file rather than to variables, so that those made in a subshell (`… | while read`) count too.
# It holds values of JSON one after the other: the name of a kind, then the items of that kind. "-tools" begins anew.

__hooks_put() { [ -z "${2-}" ] || printf '"%s"\n%s\n' "$1" "$2" >>"$__hooks_file"; }

__hooks_begin() { printf '"-%s"\n' "$1" >>"$__hooks_file"; }

mcp_register_tool() { __hooks_put tools "${1-}"; }
mcp_register_resource() { __hooks_put resources "${1-}"; }
mcp_register_prompt() { __hooks_put prompts "${1-}"; }
mcp_register_completion() { __hooks_put completions "${1-}"; }
mcp_register_resource_template() {
    if [ -z "${1-}" ]; then return 0; fi
    local complaint
    complaint=$(__mcp_jq -r -s '
        def variables: split("{") | .[1:] | map(select(contains("}")) | split("}") | .[0] | split(" ") | join("") | select(. != ""));
        if length != 1 or (.[0] | type) != "object" then "must be an object"
        else .[0]
            | if (.name | type) != "string" or .name == "" then "missing required '\''name'\'' field"
              elif (.uriTemplate | type) != "string" then "missing required '\''uriTemplate'\'' field"
              elif (.uri | type) == "string" then "\(.name): has both uri and uriTemplate (mutually exclusive)"
              elif (.uriTemplate | variables) == [] then "\(.name): uriTemplate must contain at least one {variable}"
              else empty end
        end' <<<"$1" 2>/dev/null) || complaint="invalid JSON"
    if [ -n "$complaint" ]; then
        __mcp_warn "resource template: $complaint"
        return 1
    fi
    __hooks_put resourceTemplates "$1"
}

mcp_tools_register_manual() { mcp_register_tool "$@"; }
mcp_resources_register_manual() { mcp_register_resource "$@"; }
mcp_prompts_register_manual() { mcp_register_prompt "$@"; }
mcp_completion_register_manual() { mcp_register_completion "$@"; }
mcp_resources_templates_register_manual() { mcp_register_resource_template "$@"; }

mcp_tools_manual_begin() { __hooks_begin tools; }
mcp_resources_manual_begin() { __hooks_begin resources; }
mcp_prompts_manual_begin() { __hooks_begin prompts; }
mcp_completion_manual_begin() { __hooks_begin completions; }
mcp_resources_templates_manual_begin() { __hooks_begin resourceTemplates; }

# Everything is put together once FILE is done.
mcp_tools_manual_finalize() { :; }
mcp_resources_manual_finalize() { :; }
mcp_prompts_manual_finalize() { :; }
mcp_completion_manual_finalize() { :; }
mcp_resources_templates_manual_finalize() { :; }

mcp_logging_debug() { :; }
mcp_logging_info() { __mcp_warn "${1-}: ${2-}"; }
mcp_logging_notice() { mcp_logging_info "$@"; }
mcp_logging_warning() { mcp_logging_info "$@"; }
mcp_logging_error() { mcp_logging_info "$@"; }

__hooks_register() {
    local file=$1 printed="" status=0 result
    __hooks_file=$(mktemp "${TMPDIR:-/tmp}/mcp-register.XXXXXX")
    trap 'rm -f "$__hooks_file"' EXIT
    # shellcheck source=/dev/null
    printed=$(. "$file") || status=$?
    if [ "$status" -ne 0 ]; then
        __mcp_warn "Manual registration script failed (exit $status)"
        return 1
    fi
    __mcp_uint "${MCPBASH_MAX_MANUAL_REGISTRY_BYTES:-}" 1048576
    __mcp_bytes "$printed"
    if [ "$__mcp_size" -gt "$__mcp_number" ]; then
        __mcp_warn "Manual registration output exceeded $__mcp_number bytes"
        return 1
    fi
    if [ -n "$printed" ] && ! __hooks_is_object "$printed"; then
        __mcp_warn "Manual registration script output: ${printed:0:1000}"
        if [ ! -s "$__hooks_file" ]; then
            __mcp_warn "Manual registration parsing failed: neither calls nor one JSON object"
            return 1
        fi
        printed=""
    fi
    if ! result=$(__hooks_put_together "$printed" 2>/dev/null); then
        __mcp_warn "Manual registration parsing failed: an item is not JSON"
        return 1
    fi
    printf '%s\n' "$result"
}

__hooks_is_object() { __mcp_jq -e -s 'length == 1 and (.[0] | type) == "object"' <<<"$1" >/dev/null 2>&1; }

# __hooks_put_together PRINTED: of calls and printed object, the calls win. Items without a name or without what the
# kind stands on are left out, and of the same name the first counts.
__hooks_put_together() {
    local printed=$1
    [ -n "$printed" ] || printed='{}'
    { printf '%s\n' "$printed"; cat "$__hooks_file"; } | __mcp_jq -c -s '
        def usable($field): map(select(type == "object" and .name and .[$field])) | unique_by(.name);
        {tools: "path", resources: "uri", resourceTemplates: "uriTemplate", prompts: "path", completions: "path"} as $stands_on
        | .[0] as $printed
        | reduce .[1:][] as $next ({kind: "", items: {}};
            if ($next | type) == "string" then
                if $next[:1] == "-" then $next[1:] as $kind | .items |= with_entries(select(.key != $kind)) else .kind = $next end
            else .kind as $kind
                | .items[$kind] = ((.items[$kind] // []) + (if ($next | type) == "array" then $next else [$next] end))
            end)
        | .items | with_entries(.key as $kind | .value |= usable($stands_on[$kind])) | . as $called
        | ($printed | with_entries(select($stands_on[.key] != null and (.value | type) == "array"))) + $called'
}

# ---- What policy.sh calls -------------------------------------------------------------------------------------------

mcp_tools_error() {
    _MCP_TOOLS_ERROR_CODE=${1-}
    _MCP_TOOLS_ERROR_MESSAGE=${2-}
    _MCP_TOOLS_ERROR_DATA=${3-}
}

# A project that defines none leaves the decision to the server, whose own lists hold in any case.
mcp_tools_policy_check() { return 0; }

# In a subshell, and silence means no: a policy that ends the process has not allowed anything.
__hooks_policy() {
    local verdict
    verdict=$(__hooks_judge "$@") || verdict=""
    if [ -z "$verdict" ]; then
        mcp_tools_error -32603 "Tool policy failed"
        verdict=$(__hooks_refusal "$2")
    fi
    printf '%s\n' "$verdict"
}

__hooks_judge() {
    local file=$1 name=$2 metadata=$3
    [ -n "$metadata" ] || metadata='{}'
    mcp_tools_error "" ""
    # shellcheck source=/dev/null
    . "$file" >&2 || return 1
    if mcp_tools_policy_check "$name" "$metadata" >&2; then
        printf '{"allow":true}'
    else
        __hooks_refusal "$name"
    fi
}

__hooks_refusal() {
    local code=$_MCP_TOOLS_ERROR_CODE message=$_MCP_TOOLS_ERROR_MESSAGE data=$_MCP_TOOLS_ERROR_DATA
    if [ -z "$code$message" ]; then
        code=null
    elif ! [[ $code =~ ^-?[1-9][0-9]{0,9}$ ]]; then
        code=-32602
    fi
    __mcp_quote "${data}"
    if [ -z "$data" ]; then
        data=null
    elif __mcp_one_json "$data"; then
        data=$__mcp_json
    else
        data=$__mcp_quoted
    fi
    __mcp_quote "${message:-Tool '$1' blocked by policy}"
    printf '{"allow":false,"code":%s,"message":%s,"data":%s}' "$code" "$__mcp_quoted" "$data"
}

__hooks_main "$@"
