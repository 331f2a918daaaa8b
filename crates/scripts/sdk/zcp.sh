# shellcheck shell=bash
# zcp for bash: what a script tells the server, and what it asks.
#
#   . "$ZCP_SDK/zcp.sh"
#   name=$(zcp_arg name world)
#   zcp_confirm sure "Greet $name?" || zcp_fail "nobody wants to greet $name"
#   zcp_progress 1/2 Looking for the words
#   echo "Hello $name"
#
# Ask first and act after: a script may be ended at a question and run again from the top
# with the answer in hand. Run by hand, without a server, what is told goes to stderr and
# every question ends with status 2.

# zcp_arg NAME [DEFAULT] prints an argument: strings as they are, everything else as JSON.
zcp_arg() {
  local name
  # shellcheck disable=SC2018,SC2019
  name=$(printf '%s' "$1" | LC_ALL=C tr 'a-z' 'A-Z')
  # The letters are spelled out because a range means other letters in other languages.
  name=ARG_${name//[^ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789]/_}
  printf '%s\n' "${!name-${2-}}"
}

# zcp_progress DONE[/TOTAL] [WORDS…]    zcp_progress 3/10 Reading    zcp_progress 45% Reading
zcp_progress() {
  local IFS=' '
  _zcp_tell "progress $*"
}

# zcp_log LEVEL TEXT…    A text that is a JSON object or array is logged as such.
zcp_log() {
  local IFS=' ' level=$1
  shift
  case $* in
    '{'*'}' | '['*']') _zcp_tell "log $level $*" "$level: $*" ;;
    *) _zcp_tell "log $level $(zcp_json_string "$*")" "$level: $*" ;;
  esac
}

# zcp_ask KEY MESSAGE [SCHEMA] asks the user for a form and prints its content as JSON.
# Status 1: declined or cancelled. Status 2: the client cannot ask. Without a schema the
# form has one text, `answer`.
zcp_ask() {
  local schema=${3-}
  if [ -z "$schema" ]; then
    schema='{"type":"object","properties":{"answer":{"type":"string"}},"required":["answer"]}'
  fi
  _zcp_agree ask "$1" "{\"message\":$(zcp_json_string "$2"),\"schema\":$schema}"
}

# zcp_confirm KEY MESSAGE asks for a yes. Status 0: yes. 1: no. 2: the client cannot ask.
zcp_confirm() {
  zcp_ask "$1" "$2" '{"type":"object","properties":{}}' >/dev/null
}

# zcp_visit KEY MESSAGE URL asks the user to open a page. The status is as for zcp_confirm.
zcp_visit() {
  local body
  body="{\"message\":$(zcp_json_string "$2"),\"url\":$(zcp_json_string "$3")}"
  _zcp_agree visit "$1" "$body" >/dev/null
}

# zcp_sample KEY PROMPT [MAX_TOKENS] asks the client's model and prints its text.
zcp_sample() {
  _zcp_question sample "$1" "{\"prompt\":$(zcp_json_string "$2"),\"maxTokens\":${3:-1000}}" \
    '.content | if type == "array" then .[] else . end | .text // empty'
}

# zcp_roots [KEY] prints the addresses of the client's folders, one a line.
zcp_roots() {
  _zcp_question roots "${1:-roots}" '' '.roots[] | .uri'
}

# zcp_once KEY COMMAND… runs a command once, however often the script runs for this call,
# and prints what it printed. A command that fails is not kept, and runs again.
zcp_once() {
  local key=$1 kept=new value
  shift
  if [ -n "${ZCP_OUT:-}" ]; then
    kept=$(_zcp_question once "$key" '' 'if has("value") then "kept", .value else "new" end') ||
      return
  fi
  case $kept in
    kept*) value=${kept#kept} value=${value#$'\n'} ;;
    *)
      value=$("$@") || return
      _zcp_tell "keep $(_zcp_word "$key") $(zcp_json_string "$value")" ''
      ;;
  esac
  printf '%s\n' "$value"
}

# zcp_detach says that nobody needs to wait: the call goes on as a task.
zcp_detach() { _zcp_tell detach ''; }

# zcp_updated URI tells whoever subscribed that a resource changed.
zcp_updated() { _zcp_tell "updated $1"; }

# zcp_text WORDS… adds a text to the answer.
zcp_text() {
  local IFS=' '
  _zcp_tell "text $(zcp_json_string "$*")" "$*"
}

# zcp_file PATH [MIME] adds a file to the answer.
zcp_file() {
  local path=$1
  # The server does not follow the script's `cd`.
  case $path in /*) ;; *) path=$PWD/$path ;; esac
  _zcp_tell "file $path${2:+ $2}"
}

# zcp_link URI [NAME] adds a link to the answer.
zcp_link() { _zcp_tell "link ${1// /%20}${2:+ $2}"; }

# zcp_fail MESSAGE… ends the script: the call failed, and this is why.
zcp_fail() {
  local IFS=' '
  _zcp_tell "error $*" "error: $*"
  exit 1
}

# zcp_json_string TEXT prints the text as a JSON string, quotes and all.
zcp_json_string() {
  local text=$1 code character
  text=${text//\\/\\\\}
  text=${text//\"/\\\"}
  text=${text//$'\n'/\\n}
  text=${text//$'\r'/\\r}
  text=${text//$'\t'/\\t}
  case $text in
    *[[:cntrl:]]*)
      for code in 0{1..8} 0b 0c 0e 0f 1{0..9} 1{a..f}; do
        # shellcheck disable=SC2059
        printf -v character "\\x$code"
        text=${text//"$character"/\\u00$code}
      done
      ;;
  esac
  printf '"%s"\n' "$text"
}

# _zcp_tell LINE [SHOWN] sends one line, or shows it when there is no server.
_zcp_tell() {
  local shown=${2-$1}
  if [ -n "${ZCP_OUT:-}" ]; then
    printf '%s\n' "${1//[$'\r\n']/ }" >>"$ZCP_OUT"
  elif [ -n "$shown" ]; then
    printf '%s\n' "$shown" >&2
  fi
}

# _zcp_question VERB KEY JSON FILTER asks, and prints what the filter takes from the answer.
_zcp_question() {
  local answer taken
  if [ -z "${ZCP_OUT:-}" ] || [ -z "${ZCP_IN:-}" ]; then
    echo "zcp: no server to answer \`$1 $2\`" >&2
    return 2
  fi
  _zcp_tell "$1 $(_zcp_word "$2")${3:+ $3}" || return 2
  IFS= read -r answer <"$ZCP_IN" || answer='{"error":"the server went away"}'
  taken=$(printf '%s\n' "$answer" |
    "$ZCP_JQ" -rc "if .error then \"error\", .error else \"fine\", ($4) end") || return 2
  case $taken in
    fine*) taken=${taken#fine} ;;
    *)
      echo "zcp: ${taken#error?}" >&2
      return 2
      ;;
  esac
  printf '%s\n' "${taken#$'\n'}"
}

# _zcp_agree VERB KEY JSON asks something the user may refuse, and prints the content.
_zcp_agree() {
  local answer
  answer=$(_zcp_question "$1" "$2" "$3" '.action, (.content // {})') || return
  case $answer in
    accept*) printf '%s\n' "${answer#accept?}" ;;
    *) return 1 ;;
  esac
}

# _zcp_word KEY prints a key as one word, and never two keys as the same word.
_zcp_word() {
  local word=${1//\%/%25}
  word=${word// /%20}
  word=${word//$'\t'/%09}
  word=${word//$'\r'/%0D}
  printf '%s\n' "${word//$'\n'/%0A}"
}
