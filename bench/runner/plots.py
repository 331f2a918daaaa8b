"""Bar plots as SVG, readable on light and on dark pages."""

from html import escape

WIDTH, BAR, GAP, TOP, LEFT, RIGHT = 760, 20, 9, 54, 170, 150

STYLE = """
  text { font: 13px system-ui, sans-serif; fill: #24292f; }
  .title { font-weight: 600; font-size: 15px; }
  .note, .value { fill: #57606a; }
  .ours { fill: #0969da; }
  .peer { fill: #8c959f; }
  .limit { fill: #d0d7de; }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3; }
    .note, .value { fill: #9198a1; }
    .ours { fill: #4493f8; }
    .peer { fill: #6e7681; }
    .limit { fill: #3d444d; }
  }
"""


def bars(title, note, entries):
    """A plot. Each entry: name, kind (`ours`, `peer`, `limit`), length, and the text beside it."""
    longest = max(entry[2] for entry in entries) or 1
    height = TOP + len(entries) * (BAR + GAP) + GAP
    size = f'viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}"'
    label = f'role="img" aria-label="{escape(title)}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} {label}>',
        f"<style>{STYLE}</style>",
        f'<text class="title" x="8" y="20">{escape(title)}</text>',
        f'<text class="note" x="8" y="40">{escape(note)}</text>',
    ]
    for number, entry in enumerate(entries):
        parts += bar(TOP + number * (BAR + GAP), longest, *entry)
    return "\n".join([*parts, "</svg>"]) + "\n"


def bar(top, longest, name, kind, length, value):
    width = max(1.5, (WIDTH - LEFT - RIGHT) * length / longest)
    middle = top + BAR - 5
    return [
        f'<text x="{LEFT - 8}" y="{middle}" text-anchor="end">{escape(name)}</text>',
        f'<rect class="{kind}" x="{LEFT}" y="{top}" width="{width:.1f}" height="{BAR}" rx="3"/>',
        f'<text class="value" x="{LEFT + width + 8:.1f}" y="{middle}">{escape(value)}</text>',
    ]
