# shellcheck shell=bash disable=SC2016
# (SC2016: the dollars in single quotes are variables of jq.)
#
# What a tool says to a client that can show a user interface (MCP Apps). tool-sdk.sh sources this file.

set -euo pipefail

if ! declare -F __mcp_quote >/dev/null; then
    __mcp_ui_here=${BASH_SOURCE[0]%/*}
    [ "$__mcp_ui_here" != "${BASH_SOURCE[0]}" ] || __mcp_ui_here=.
    # shellcheck source=tool-sdk.sh
    . "$__mcp_ui_here/tool-sdk.sh"
fi

mcp_client_supports_ui() { [ "${MCPBASH_CLIENT_SUPPORTS_UI:-0}" = 1 ]; }

mcp_client_supports_extension() { [ "${1-}" = io.modelcontextprotocol/ui ] && mcp_client_supports_ui; }

# ---- Results --------------------------------------------------------------------------------------------------------

# mcp_result_with_ui URI TEXT [DATA]: the interface belongs to the tool's definition, so URI is not used any more.
mcp_result_with_ui() {
    local text=${2-} data=${3:-null}
    if ! mcp_client_supports_ui || [ "$data" = null ]; then
        mcp_result_text "$text"
    elif __mcp_one_json "$data"; then
        __mcp_quote "$text"
        printf '{"content":[{"type":"text","text":%s}],"structuredContent":%s,"isError":false}\n' "$__mcp_quoted" "$__mcp_json"
    else
        __mcp_warn "mcp_result_with_ui: the data is not JSON"
        return 1
    fi
}

mcp_result_with_ui_data() { mcp_result_with_ui "${1-}" "${2-}" "${3-}"; }

# mcp_tool_meta_with_ui URI [VISIBILITY]: what belongs into `_meta` of the tool; VISIBILITY is "model", "app" or both.
mcp_tool_meta_with_ui() {
    local uri names
    __mcp_quote "${1-}"
    uri=$__mcp_quoted
    IFS=$' ,\t' read -r -a names <<<"${2:-model,app}"
    __mcp_quote_list ${names[@]+"${names[@]}"}
    printf '{"ui":{"resourceUri":%s,"visibility":%s}}\n' "$uri" "$__mcp_quoted_list"
}

# ---- What an interface may load -------------------------------------------------------------------------------------

# __mcp_ui_about NAME FILTER: prints what FILTER makes of the interface's ui.meta.json; of {} when there is none.
__mcp_ui_about() {
    local root=${MCPBASH_PROJECT_ROOT:-.} folder
    for folder in "${MCPBASH_TOOLS_DIR:-$root/tools}/$1/ui" "${MCPBASH_UI_DIR:-$root/ui}/$1"; do
        if [ -f "$folder/ui.meta.json" ]; then
            __mcp_jq -rc "$2" <"$folder/ui.meta.json"
            return
        fi
    done
    __mcp_jq -rc "$2" <<<'{}'
}

mcp_ui_get_metadata() {
    __mcp_ui_about "${1-}" '.meta // {} | if . == {} then . else
        {csp: (.csp // {}), permissions: (.permissions // {}), prefersBorder: (if .prefersBorder == null then true else .prefersBorder end)}
        end'
}

mcp_ui_get_csp_meta() {
    __mcp_ui_about "${1-}" '.meta.csp // {} | {
        connectDomains: (.connectDomains // []), resourceDomains: (.resourceDomains // []),
        frameDomains: (.frameDomains // []), baseUriDomains: (.baseUriDomains // [])}'
}

mcp_ui_get_csp_header() {
    __mcp_ui_about "${1-}" '
        def from($names): if ($names | length) > 0 then " " + ($names | join(" ")) else "" end;
        .meta.csp // {} | . as $csp | [
            "default-src '\''self'\''",
            "script-src '\''self'\'' https://cdn.jsdelivr.net",
            "style-src '\''self'\'' '\''unsafe-inline'\''",
            "img-src '\''self'\'' data:",
            "connect-src '\''self'\''" + from($csp.connectDomains // []),
            (if ($csp.resourceDomains // [] | length) > 0 then
                "font-src '\''self'\''" + from($csp.resourceDomains), "media-src '\''self'\''" + from($csp.resourceDomains)
            else empty end),
            (if $csp == {} then empty
            elif ($csp.frameDomains // [] | length) > 0 then "frame-src" + from($csp.frameDomains)
            else "frame-src '\''none'\''" end),
            "base-uri '\''self'\''" + from($csp.baseUriDomains // []),
            "frame-ancestors '\''none'\''"
        ] | join("; ")'
}

# ---- Pages ----------------------------------------------------------------------------------------------------------

# A page is whole: it loads nothing, and speaks with its host by messages.

# mcp_ui_form --title TITLE --field NAME[:TYPE[:A,B,C]]... --submit-tool TOOL
mcp_ui_form() {
    local title="" tool="" fields="" name type options
    while [ $# -gt 0 ]; do
        case $1 in
        --title) title=${2-} ;;
        --submit-tool) tool=${2-} ;;
        --field)
            IFS=: read -r name type options <<<"${2-}"
            __mcp_ui_field "$name" "${type:-text}" "$options"
            fields=$fields$__mcp_html
            ;;
        *)
            shift
            continue
            ;;
        esac
        shift $(($# < 2 ? $# : 2))
    done
    __mcp_quote "$tool"
    __mcp_ui_page "${title:-Form}" "<form>$fields<p><button>Submit</button> <output></output></p></form>" \
        "{\"tool\":$__mcp_quoted}" '
const form = document.querySelector("form"), told = document.querySelector("output");
form.onsubmit = async (event) => {
  event.preventDefault();
  const args = {};
  for (const field of form.elements) {
    if (!field.name) continue;
    if (field.type === "checkbox") args[field.name] = field.checked;
    else if (field.value !== "") args[field.name] = field.type === "number" ? field.valueAsNumber : field.value;
  }
  told.textContent = "…";
  try {
    const result = await ask("tools/call", { name: given.tool, arguments: args });
    const words = (result.content || []).filter((part) => part.type === "text").map((part) => part.text).join("\n");
    told.textContent = words || "Done";
  } catch (error) {
    told.textContent = error.message;
  }
};'
}

# DATA | mcp_ui_table --columns A,B,C [--title TITLE]: rows from stdin, if it holds any; later ones from the host.
mcp_ui_table() {
    local title=Data columns="" rows='[]' names
    while [ $# -gt 0 ]; do
        case $1 in
        --columns) columns=${2-} ;;
        --title) title=${2-} ;;
        *)
            shift
            continue
            ;;
        esac
        shift $(($# < 2 ? $# : 2))
    done
    if [ ! -t 0 ]; then
        rows=$(__mcp_jq -c -s 'if length != 1 then [] else .[0] end
            | if type == "array" then . elif type == "object" and (.items | type) == "array" then .items else [] end') || rows='[]'
    fi
    IFS=, read -r -a names <<<"$columns"
    __mcp_quote_list ${names[@]+"${names[@]}"}
    __mcp_ui_page "$title" '<table><thead><tr></tr></thead><tbody></tbody></table>' \
        "{\"columns\":$__mcp_quoted_list,\"rows\":$rows}" '
const head = document.querySelector("thead tr"), body = document.querySelector("tbody");
let rows = [], order = 1;
const show = (value) => value == null ? "" : typeof value === "object" ? JSON.stringify(value) : String(value);
const draw = () => body.replaceChildren(...rows.map((row) => {
  const line = document.createElement("tr");
  for (const name of given.columns) line.insertCell().textContent = show(row[name]);
  return line;
}));
for (const name of given.columns) {
  const cell = head.appendChild(document.createElement("th"));
  cell.textContent = name;
  cell.onclick = () => {
    order = -order;
    rows.sort((a, b) => order * show(b[name]).localeCompare(show(a[name]), undefined, { numeric: true }));
    draw();
  };
}
const fill = (data) => { rows = Array.isArray(data) ? [...data] : data ? [data] : []; draw(); };
fill(given.rows);
heard["ui/notifications/tool-result"] = (result) => {
  let data = result.structuredContent;
  if (data === undefined) try { data = JSON.parse(result.content.find((part) => part.type === "text").text); } catch { return; }
  if (data && data.success === true && data.result !== undefined) data = data.result;
  fill(data && data.items || data);
};'
}

# __mcp_escape_html TEXT: __mcp_html.
__mcp_escape_html() {
    __mcp_html=${1//"&"/"&amp;"}
    __mcp_html=${__mcp_html//"<"/"&lt;"}
    __mcp_html=${__mcp_html//">"/"&gt;"}
    __mcp_html=${__mcp_html//'"'/"&quot;"}
}

# __mcp_ui_field NAME TYPE OPTIONS: __mcp_html is a labelled input.
__mcp_ui_field() {
    local name type=$2 label option options input
    __mcp_escape_html "${1//[-_]/ }"
    label=$__mcp_html
    __mcp_escape_html "$1"
    name=$__mcp_html
    case $type in
    select)
        input=""
        IFS=, read -r -a options <<<"$3"
        for option in ${options[@]+"${options[@]}"}; do
            __mcp_escape_html "$option"
            input="$input<option>$__mcp_html</option>"
        done
        input="<select name=\"$name\">$input</select>"
        ;;
    textarea) input="<textarea name=\"$name\" rows=\"4\"></textarea>" ;;
    *)
        __mcp_escape_html "$type"
        input="<input name=\"$name\" type=\"$__mcp_html\">"
        ;;
    esac
    __mcp_html="<label><span>$label</span> $input</label>"
}

# __mcp_ui_page TITLE BODY GIVEN SCRIPT: prints the page. GIVEN is JSON that SCRIPT finds as `given`; SCRIPT may `ask`
# the host, and put functions into `heard` for what the host tells.
__mcp_ui_page() {
    local title given
    __mcp_escape_html "$1"
    title=$__mcp_html
    # Not a `<` in it, so that no value can end the script.
    given=${3//"<"/"\\u003c"}
    printf '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>%s</title>\n' "$title"
    printf '%s\n' '<style>
:root { color-scheme: light dark; font: 14px/1.5 system-ui, sans-serif; }
body { margin: 16px; }
h2 { margin: 0 0 12px; font-size: 16px; }
label { display: block; margin: 8px 0; }
label span { display: block; text-transform: capitalize; }
input:not([type=checkbox]), select, textarea { width: 100%; box-sizing: border-box; font: inherit; padding: 6px; }
button { font: inherit; padding: 6px 16px; }
output { white-space: pre-wrap; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; padding: 6px 8px; border-bottom: 1px solid #8884; }
th { cursor: pointer; }
</style>
</head>
<body>'
    printf '<h2>%s</h2>\n%s\n' "$title" "$2"
    printf '<script type="application/json" id="given">%s</script>\n' "$given"
    printf '%s\n' '<script type="module">
const given = JSON.parse(document.getElementById("given").textContent);
const heard = {}, waiting = new Map();
let last = 0;
const send = (message) => parent.postMessage({ jsonrpc: "2.0", ...message }, "*");
const tell = (method, params) => send({ method, params });
const ask = (method, params) => new Promise((resolve, reject) => {
  waiting.set(++last, { resolve, reject });
  send({ id: last, method, params });
});
addEventListener("message", ({ source, data }) => {
  if (source !== parent || !data || data.jsonrpc !== "2.0") return;
  if (data.method) {
    if (heard[data.method]) heard[data.method](data.params || {});
    if (data.id !== undefined) send({ id: data.id, result: {} });
    return;
  }
  const asked = waiting.get(data.id);
  waiting.delete(data.id);
  if (asked && data.error) asked.reject(new Error(data.error.message));
  else if (asked) asked.resolve(data.result);
});'
    printf '%s\n' "$4"
    printf '%s\n' 'await ask("ui/initialize", {
  protocolVersion: "2026-01-26",
  appInfo: { name: document.title, version: "1.0.0" },
  appCapabilities: {},
});
tell("ui/notifications/initialized", {});
new ResizeObserver(() => tell("ui/notifications/size-changed", {
  width: document.documentElement.scrollWidth, height: document.documentElement.scrollHeight,
})).observe(document.body);
</script>
</body>
</html>'
}
