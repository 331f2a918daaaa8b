"""Prints what came of every check, and fails if one did not pass.

A column is `CLIENT TRANSPORT FILE`, where the file has a line of JSON for each check.
"""

import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path

from clients import CHECKS

WIDTH = 17


@dataclass
class Column:
    name: str
    lines: dict

    @classmethod
    def parse(cls, text):
        client, transport, file = text.split(" ", 2)
        lines = map(json.loads, Path(file).read_text().splitlines())
        return cls(f"{client} {transport}", {(line["feature"], line["language"]): line for line in lines})

    def failures(self, feature, languages):
        """The languages that did not pass, and why."""
        missing = {"ok": False, "detail": "it was never tried"}
        lines = {language: self.lines.get((feature, language), missing) for language in languages}
        return {language: line["detail"] for language, line in lines.items() if not line["ok"]}


def show(columns):
    paint = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    print("\n" + (f"{'':<12}" + "".join(f"{column.name:<{WIDTH}}" for column in columns) + "in").rstrip())
    for check, languages in CHECKS:
        row = f"{check.__name__:<12}"
        for column in columns:
            failed = len(column.failures(check.__name__, languages))
            cell = f"{f'{failed} FAIL' if failed else 'ok':<{WIDTH}}"
            row += f"\x1b[{31 if failed else 32}m{cell}\x1b[0m" if paint else cell
        print(row + " ".join(languages))


def main():
    columns = [Column.parse(text) for text in sys.argv[1:]]
    show(columns)
    failed = 0
    for column in columns:
        for check, languages in CHECKS:
            for language, why in column.failures(check.__name__, languages).items():
                print(f"\nFAIL {column.name} · {check.__name__} · {language}: {why}", end="")
                failed += 1
    total = len(columns) * sum(len(languages) for _, languages in CHECKS)
    print(f"\n{total - failed} of {total} pass")
    return 1 if failed or not columns else 0


if __name__ == "__main__":
    sys.exit(main())
