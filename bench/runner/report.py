"""Writes docs/performance.md, between its markers, and the plots beside it."""

from . import losses, places, plots, tables, targets, units
from .tables import BASE

BEGIN, END = "<!-- results -->", "<!-- end -->"

# File, title, note, cell, key, how a value is shown.
PLOTS = (
    (
        "echo.svg",
        "Echo over HTTP",
        "calls a second, 2026-07-28, 32 connections; longer is better",
        "echo modern 32",
        "per_second",
        units.per_second,
    ),
    (
        "stdio.svg",
        "Echo over stdio",
        "calls a second, 10,000 without waiting; longer is better",
        "stdio pipelined",
        "per_second",
        units.per_second,
    ),
    (
        "memory.svg",
        "Memory of an idle session",
        "KB of resident memory each; shorter is better",
        "memory",
        "kb_per_session",
        units.kilobytes,
    ),
    (
        "instructions.svg",
        "Instructions for one echo",
        "user space, HTTP, 2026-07-28; shorter is better",
        "instructions modern",
        "instructions",
        units.count,
    ),
)
KINDS = {"zcp-": "ours", "limit-": "limit"}


def write(results):
    """Renews the page and its plots."""
    drawn = draw_plots(results)
    before, rest = places.PAGE.read_text().split(BEGIN)
    _, after = rest.split(END)
    text = "\n\n".join(part for part in sections(results, drawn) if part)
    places.PAGE.write_text(f"{before}{BEGIN}\n\n{text}\n\n{END}{after}")


def sections(results, drawn):
    return [
        "## Machine",
        machine(results),
        "## Targets",
        targets_table(results),
        "## Where we lose",
        losses_list(results),
        "## Plots" if drawn else "",
        "\n\n".join(drawn),
        "## All figures",
        tables.all_tables(results),
        footnotes(results),
    ]


def machine(results):
    about = results.machine
    lines = [
        ("measured", "; ".join(results.measured())),
        ("processor", f"{about['cpu']}, {about['cores']} cores"),
        ("kernel", about["kernel"]),
        ("compiler", about["rustc"]),
        ("cores", about["pinning"]),
    ]
    return "| | |\n|---|---|\n" + "\n".join(f"| {name} | {value} |" for name, value in lines)


def targets_table(results):
    found = targets.verdicts(results)
    head = "| target | wanted | ours | beside | ratio | |\n|---|---:|---:|---:|---:|---|\n"
    rows = [
        f"| {verdict.title} | {verdict.wanted} | {verdict.ours} | {verdict.theirs} "
        f"| {verdict.ratio} | {marked(verdict.state)} |"
        for verdict in found
    ]
    graded = [verdict for verdict in found if verdict.state != "shown"]
    met = sum(verdict.state == "met" for verdict in graded)
    return f"{met} of {len(graded)} targets are met.\n\n{head}" + "\n".join(rows)


def marked(state):
    return f"**{state}**" if state == "not met" else state


def losses_list(results):
    found = losses.lines(results)
    if not found:
        return "Nowhere, this time: every target is met and no peer is ahead in any row."
    return "\n".join(f"- {line}" for line in found)


def footnotes(results):
    cells = [(cell, server) for cell in results.cells for server in results.names(cell)]
    noisy = any(results.is_noisy(cell, server) for cell, server in cells)
    notes = ["\\* The machine was busy in every sample."] if noisy else []
    failed = [failure(*found) for found in results.failures()]
    if failed:
        notes += ["### Samples that failed", "\n".join(failed)]
    return "\n\n".join(notes)


def failure(cell, server, failed, taken, why):
    return f"- {cell}: {server}, {failed} of {taken}, the first with {first_words(why)}"


def first_words(text):
    """One line of an error, without anything Markdown would take for its own."""
    line = " ".join(text.split())[:160]
    return f"`{line.replace('`', '')}`"


def draw_plots(results):
    """Draws what was measured, and gives the lines that show it."""
    shown = []
    for file, title, note, cell, key, show in PLOTS:
        entries = plot_entries(results, cell, key, show)
        if entries:
            places.PLOTS.mkdir(parents=True, exist_ok=True)
            plot = plots.bars(title, f"{note}; x is beside {BASE}", entries)
            (places.PLOTS / file).write_text(plot)
            shown.append(f"![{title}: {note}](performance/{file})")
    return shown


def plot_entries(results, cell, key, show):
    base = results.median(cell, BASE, key)
    entries = []
    for server in results.names(cell):
        value = results.median(cell, server, key)
        if value is None:
            continue
        times = f" · {units.ratio(value / base)}" if base else ""
        entries.append((server, kind_of(server), max(value, 0), show(value) + times))
    return entries


def kind_of(name):
    return next((kind for start, kind in KINDS.items() if name.startswith(start)), "peer")
