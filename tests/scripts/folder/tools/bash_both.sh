# Shows what it was given.
#
# @param word string            A word.
# @param [many] string[]        More of them.
# @param loud boolean = false   Whether to shout.
source "$ZCP_SDK/zcp.sh"

args=$(cat) word=null argv=
[[ -z ${ARG_WORD+set} ]] || word=$(zcp_json_string "$(zcp_arg word)")
for each in "$@"; do argv+=,$(zcp_json_string "$each"); done
printf '{"args":%s,"word":%s,"argv":[%s]}\n' "${args:-"{}"}" "$word" "${argv#,}"
