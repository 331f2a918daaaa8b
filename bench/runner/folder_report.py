"""Writes what docs/performance.md says of folders of scripts, between its markers."""

from . import places, units
from .folder_rows import TOGETHER
from .report import first_words

BEGIN, END = "<!-- scripts -->", "<!-- /scripts -->"
OURS, LIMIT = "zcp-comments", "limit-spawn"
OWN = "zcp-"
KINDS = {"sh": "`echo hello` in `/bin/sh`", "python": '`print("hello")` in Python'}

ABOUT = """\
## A folder of scripts

`zcp serve FOLDER` beside [mcp-bash](mcp-bash.md), which does the same in bash, and FastMCP, where a Python function starts each script. Measured by a command
of its own, which writes this part of the page:

```console
cd bench && ./scripts --mcp-bash COPY
```
"""

HOW = """\
### How folders are measured

- All speak the revision 2025-11-25 on stdio. Before anything counts, each must give the right name in `serverInfo` and run from the right program.
- **Start** is from starting the program to the last page of `tools/list`, with {tools} scripts in bash. The list must have every name, each with a description
  and a property in its schema. `zcp-comments` finds them in comments, `zcp-sidecars` in a `.meta.json` beside each, and `zcp-project` serves a copy of the
  project that mcp-bash has. `mcp-bash-first` has no cache, `mcp-bash-again` the one that an earlier start left, which it checks.
- **Calls** are of a folder with two scripts. All answers are parsed and must say `hello`. The client's own time counts as the server's.
- **`limit-spawn`** is {limit}: `posix_spawn`, its output read from a pipe to the end, its end waited for. It checks no arguments, limits
  nothing, and leaves what the script started behind.
- They take turns, pass after pass, each time newly started. Nothing is pinned: servers and scripts have all cores. A sample counts if all answers were right and
  the rest of the machine used less than a quarter of a core; otherwise it is taken again. Shown are medians: {how}.
- The variables are the same for all. mcp-bash has `MCPBASH_TOOL_ALLOWLIST='*'`, without which it calls nothing, and is given 15 minutes for a list, since it
  gives up after 30 s otherwise. It is sampled less often, with fewer calls.
"""


def write(results):
    """Renews its part of the page."""
    before, rest = places.PAGE.read_text().split(BEGIN)
    _, after = rest.split(END)
    text = "\n".join(part for part in sections(results) if part)
    places.PAGE.write_text(f"{before}{BEGIN}\n\n{text}\n{END}{after}")


def sections(results):
    about = results.machine
    return [
        ABOUT,
        start_table(results),
        *[calls_table(results, kind) for kind in KINDS],
        "### Where folders lose\n",
        "\n".join(f"- {line}" for line in losses(results)) + "\n",
        HOW.format(
            tools=about["tools"], limit=about["limit"], how="; ".join(results.measured())
        ),
        f"Machine: {about['cpu']}, {about['cores']} cores, kernel {about['kernel']}.\n",
        notes(results),
    ]


def start_table(results):
    base = results.median("start", OURS, "milliseconds")
    lines = []
    for server in results.names("start"):
        value = results.median("start", server, "milliseconds")
        name, about = marked(results, "start", server), said(results, server)
        lines.append([name, about, units.milliseconds(value), beside(value, base)])
    head = ["server", "", "to the list of all tools", f"beside {OURS}"]
    return table(f"Start, {results.machine['tools']} scripts", head, lines, left=2)


def calls_table(results, kind):
    one, many = f"call {kind}", f"together {kind}"
    lines = []
    for server in results.names(one):
        p50, limit = (results.median(one, name, "p50_us") for name in (server, LIMIT))
        rate, limit_rate = (results.median(many, name, "per_second") for name in (server, LIMIT))
        lines.append(
            [
                marked(results, one, server),
                shown(p50, units.microseconds),
                beside(p50, limit),
                shown(results.median(one, server, "p99_us"), units.microseconds),
                shown(rate, calls_per_second) + ("\\*" if results.is_noisy(many, server) else ""),
                beside(rate, limit_rate),
            ]
        )
    with_limit = f"beside {LIMIT}"
    head = ["server", "a call, p50", with_limit, "p99", f"{TOGETHER} at a time", with_limit]
    return table(f"Calls, {KINDS[kind]}", head, lines)


def table(title, head, lines, left=1):
    rule = ["---"] * left + ["---:"] * (len(head) - left)
    rows = ["| " + " | ".join(line) + " |" for line in [head, rule, *lines]]
    return f"### {title}\n\n" + "\n".join(rows) + "\n"


def marked(results, cell, server):
    return server + ("\\*" if results.is_noisy(cell, server) else "")


def said(results, server):
    return results.machine["servers"].get(server, "")


def shown(value, show):
    return "–" if value is None else show(value)


def calls_per_second(value):
    return units.per_second(value) if value >= 100 else f"{value:.2g} /s"


def beside(value, base):
    return "–" if value is None or not base else times(value / base)


def times(ratio):
    """Peers are hundreds of times away here, in both directions."""
    if ratio >= 100:
        return f"{ratio:,.0f}x"
    return units.ratio(ratio) if ratio >= 0.01 else f"{ratio:.1g}x"


def losses(results):
    """A sentence for each figure in which a peer is ahead, and for what we add to the limit."""
    found = behind(results, "start", "milliseconds", units.milliseconds, "start")
    for kind, name in KINDS.items():
        one, many = f"call {kind}", f"together {kind}"
        found += behind(results, one, "p50_us", units.microseconds, f"a call of {name}, p50")
        found += behind(results, one, "p99_us", units.microseconds, f"a call of {name}, p99")
        title = f"{TOGETHER} calls of {name} at a time"
        found += behind(results, many, "per_second", calls_per_second, title, more_is_better=True)
    found = found or ["No peer is ahead in any figure."]
    return found + [line for kind in KINDS for line in added(results, kind)]


def behind(results, cell, key, show, title, more_is_better=False):
    """Our slowest way is compared with each peer."""
    values = {name: results.median(cell, name, key) for name in results.names(cell)}
    own = [(value, name) for name, value in values.items() if name.startswith(OWN)]
    if not own:
        return []
    worst, ours = min(own) if more_is_better else max(own)
    return [
        f"{title}: {name} is ahead of {ours}, {show(value)} beside our {show(worst)}."
        for name, value in values.items()
        if not name.startswith((OWN, LIMIT))
        and (value > worst if more_is_better else value < worst)
    ]


def added(results, kind):
    ours, limit = (results.median(f"call {kind}", name, "p50_us") for name in (OURS, LIMIT))
    if ours and limit and ours > limit:
        more, ratio = units.microseconds(ours - limit), times(ours / limit)
        yield f"Beside the bare spawn a call of {KINDS[kind]} takes {ratio}: {more} more."


def notes(results):
    cells = [(cell, server) for cell in results.cells for server in results.names(cell)]
    noisy = any(results.is_noisy(*found) for found in cells)
    lines = ["\\* The machine was busy in every sample.\n"] if noisy else []
    for cell, server, failed, taken, why in results.failures():
        lines.append(f"- {cell}: {server}, {failed} of {taken} failed: {first_words(why)}\n")
    return "\n".join(lines)
