"""What Autobahn's fuzzing client is asked to do, and what came of it.

    verdict.py program                      the test program among the messages of cargo
    verdict.py spec URL REPORTS [CASE...]   the specification that the client reads
    verdict.py judge REPORTS [CASE...]      a table of the results; fails unless all cases passed
"""

import collections
import json
import sys
from pathlib import Path

AGENT = "zcp"
CASES = 517
# What the suite calls success. "Non-strict" is a violation that is found at the end of a frame instead
# of in its middle, "informational" has no wrong answer.
PASSED = {"OK", "NON-STRICT", "INFORMATIONAL"}
# Compression, which the server does not offer.
OPTIONAL = {"12", "13"}
COLUMNS = ["OK", "NON-STRICT", "INFORMATIONAL", "UNIMPLEMENTED", "FAILED"]


def program():
    messages = [json.loads(line) for line in sys.stdin]
    [found] = [one["executable"] for one in messages if one.get("executable")]
    print(found)


def spec(url, reports, *cases):
    asked = {
        "outdir": reports,
        "servers": [{"agent": AGENT, "url": url}],
        "cases": list(cases) or ["*"],
        "exclude-cases": [],
        "exclude-agent-cases": {},
    }
    print(json.dumps(asked))


def outcome(result):
    """The worse of two: how messages were answered, and how the connection was closed."""
    both = result["behavior"], result["behaviorClose"]
    wrong = [one for one in both if one not in PASSED]
    if wrong:
        return wrong[0] if wrong[0] in COLUMNS else "FAILED"
    return result["behavior"]


def passes(case, name):
    return name in PASSED or (name == "UNIMPLEMENTED" and case.split(".")[0] in OPTIONAL)


def judge(reports, *cases):
    results = json.loads((Path(reports) / "index.json").read_text())[AGENT]
    groups = collections.defaultdict(collections.Counter)
    failed = []
    for case, result in results.items():
        name = outcome(result)
        groups[int(case.split(".")[0])][name] += 1
        if not passes(case, name):
            failed.append(f"{case}: {result['behavior']}, closed {result['behaviorClose']}; see {reports}/{result['reportfile']}")
    print(f"{'group':<8}" + "".join(f"{name.lower():>15}" for name in COLUMNS))
    for group, counts in sorted(groups.items()):
        print(f"{group:<8}" + "".join(f"{counts[name] or '':>15}" for name in COLUMNS))
    print("\n".join(["", *failed, f"{len(results) - len(failed)} of {len(results)} cases without a failure"]))
    if not cases and len(results) != CASES:
        sys.exit(f"{len(results)} cases ran instead of {CASES}")
    return 1 if failed or not results else 0


if __name__ == "__main__":
    sys.exit({"program": program, "spec": spec, "judge": judge}[sys.argv[1]](*sys.argv[2:]))
