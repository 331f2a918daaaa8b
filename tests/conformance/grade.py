"""Runs the official conformance suite against a server and a client, and grades every check it wrote down.

The suite's own exit code forgives warnings and does not count scenarios; this does neither.
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import http.client
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time
import urllib.parse

SERVER_NAME = "zcp-everything"
CLIENT = {"name": "zcp-grade", "version": "1.0.0"}
STATUSES = ("SUCCESS", "INFO", "SKIPPED", "WARNING", "FAILURE")
CLEAN = ("SUCCESS", "INFO", "SKIPPED")
SUITE_MINUTES = 20


@dataclasses.dataclass(frozen=True)
class Set:
    """A selection of scenarios, and how many of them there must be."""

    name: str
    flags: tuple[str, ...]
    scenarios: int
    # Checks the suite lets pass without trying them: here only SUCCESS will do.
    proofs: tuple[tuple[str, str], ...] = ()
    # Checks that may be skipped, of a client.
    most_skipped: int | None = None


def required(revision, scenarios):
    return Set(f"required {revision}", ("--requirements", revision), scenarios)


def whole(revision, scenarios, proofs=()):
    flags = ("--suite", "all", "--spec-version", revision)
    return Set(f"all of {revision}", flags, scenarios, proofs)


SETS = (
    required("2025-11-25", 30),
    required("2026-07-28", 37),
    whole("2025-03-26", 1),
    whole("2025-06-18", 27),
    whole("2025-11-25", 33, proofs=(("server-sse-polling", "server-sse-disconnect-resume"),)),
    whole("2026-07-28", 40),
    # With all extensions. The suite itself skips one scenario of tasks.
    Set("all, bare", ("--suite", "all"), 65, most_skipped=1),
)

CLIENT_SETS = (
    # What a client of 2026-07-28 never sends is skipped: `initialize` and what follows it.
    Set("client, all", ("--suite", "all"), 48, most_skipped=2),
    Set("client, req. 2025-11-25", ("--requirements", "2025-11-25"), 18),
    Set("client, req. 2026-07-28", ("--requirements", "2026-07-28"), 32, most_skipped=2),
)


def main():
    sys.stdout.reconfigure(line_buffering=True)
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--suite", required=True, help="the suite's command")
    parser.add_argument("--url", required=True, help="the server's MCP endpoint")
    parser.add_argument("--client", required=True, help="the client's command")
    parser.add_argument("--results", required=True, type=pathlib.Path, help="where reports go")
    parser.add_argument("--scenario", help="run this scenario alone and print its checks")
    options, rest = parser.parse_known_args()
    if rest and not options.scenario:
        parser.error(f"{rest[0]} goes with --scenario")

    shutil.rmtree(options.results, ignore_errors=True)
    server = Suite(options.suite, "server", ("--url", options.url), options.results)
    client = Suite(options.suite, "client", ("--command", options.client), options.results)
    if options.scenario:
        clients = re.findall(r"^  - (\S+)", client.list("--client"), re.MULTILINE)
        suite = client if options.scenario in clients else server
        return show_scenario(suite, options.scenario, rest)
    return grade_sets(server, client)


def grade_sets(server, client):
    # The sets overlap, so what happens in several of them is told once.
    troubles, skipped = {}, {}
    print_heading()
    runs = [(server, selection) for selection in SETS]
    runs += [(client, selection) for selection in CLIENT_SETS]
    for suite, selection in runs:
        started = time.monotonic()
        outcome = suite.run(selection.name, selection.flags)
        graded = {name: outcome.scenarios[name] for name in suite.graded(selection, outcome)}
        found = troubles_of(selection, graded, outcome)
        print_set(selection, graded, bool(found), time.monotonic() - started)
        for what, why in found:
            troubles.setdefault(what, (why, []))[1].append(selection.name)
        for name, check in every_check(graded):
            if check["status"] == "SKIPPED":
                skipped.setdefault(f"{name}: {check['id']}", []).append(selection.name)

    for what, where in skipped.items():
        print(f"skipped: {what} ({', '.join(where)})")
    for what, (why, where) in troubles.items():
        print(f"\n{paint('FAILURE', what)} ({', '.join(where)})\n{indent(why)}")
    if troubles:
        print(f"\nreports and logs: {server.results}")
    return 1 if troubles else 0


def troubles_of(selection, graded, outcome):
    """Everything that keeps a set from being clean: what, and why."""
    troubles = []
    if len(graded) != selection.scenarios:
        why = f"{len(graded)} scenarios ran, {selection.scenarios} were expected"
        troubles.append(("wrong total", why))
    for name, checks in graded.items():
        if not checks:
            troubles.append((f"{name}: no checks", f"it did not come to an end: see {outcome.log}"))
    for name, check in every_check(graded):
        if check["status"] not in CLEAN:
            what = f"{name}: {check['id']} ({check['name']}): {check['status']}"
            troubles.append((what, check.get("errorMessage") or check["description"]))
    for name, proof in selection.proofs:
        statuses = [check["status"] for check in graded.get(name, ()) if check["id"] == proof]
        if statuses != ["SUCCESS"]:
            why = f"only SUCCESS will do, not {', '.join(statuses) or 'its absence'}"
            troubles.append((f"{name}: {proof}", why))
    skipped = sum(check["status"] == "SKIPPED" for _, check in every_check(graded))
    if selection.most_skipped is not None and skipped > selection.most_skipped:
        why = f"{skipped} checks were skipped, {selection.most_skipped} may be"
        troubles.append(("too much is skipped", why))
    if outcome.code != 0 and not troubles:
        troubles.append(("the suite failed", f"its exit code is {outcome.code}: see {outcome.log}"))
    return troubles


def every_check(scenarios):
    return ((name, check) for name, checks in scenarios.items() for check in checks)


def show_scenario(suite, scenario, flags):
    outcome = suite.run(scenario, ("--scenario", scenario, *flags))
    checks = outcome.scenarios.get(scenario)
    if not checks:
        print(plain(outcome.log.read_text()), end="")
        return 1
    for check in checks:
        status = check["status"]
        print(f"{paint(status, f'{status:8}')} {check['id']}  {check.get('description', '')}")
        if status == "SUCCESS":
            continue
        if check.get("errorMessage"):
            print(indent(check["errorMessage"]))
        if check.get("details"):
            print(indent(json.dumps(check["details"], indent=2, ensure_ascii=False)))
    return 0 if is_clean(checks) else 1


def is_clean(checks):
    return bool(checks) and all(check["status"] in CLEAN for check in checks)


# The suite


@dataclasses.dataclass
class Outcome:
    code: int
    log: pathlib.Path
    scenarios: dict[str, list[dict]]


class Suite:
    """The suite, in one of its two roles: what it grades is named by `target`."""

    def __init__(self, command, role, target, results):
        self.command, self.role, self.target, self.results = command, role, target, results

    def run(self, name, flags):
        """One run of the suite: its exit code, and every scenario's checks."""
        if self.role == "server":
            assert_server(self.target[1])
        reports = self.results / re.sub("[ ,.]+", "-", name)
        reports.mkdir(parents=True)
        log = reports / "suite.log"
        command = [self.command, self.role, *self.target, *flags, "-o", str(reports)]
        with log.open("w") as output:
            try:
                code = subprocess.run(
                    command, stdout=output, stderr=subprocess.STDOUT, timeout=SUITE_MINUTES * 60
                ).returncode
            except subprocess.TimeoutExpired:
                code = f"none after {SUITE_MINUTES} minutes"
        return Outcome(code, log, read_reports(reports, self.role))

    def graded(self, selection, outcome):
        """The scenarios that count: a required set also runs some its revision does not score."""
        if "--requirements" not in selection.flags:
            return sorted(outcome.scenarios)
        servers, clients = self.list(*selection.flags).split("Client scenarios")
        clients = clients.split("never scored")[0]
        scored = servers if self.role == "server" else clients
        scored = re.findall(r"^  - (\S+)", scored, re.MULTILINE)
        return sorted(set(scored) & set(outcome.scenarios))

    def list(self, *flags):
        return subprocess.run(
            [self.command, "list", *flags], check=True, capture_output=True, text=True
        ).stdout


def read_reports(directory, role):
    """Reads each scenario's `checks.json`; a scenario that threw has none.

    Its folder is `server-<scenario>-<timestamp>` or, of a client, `<scenario>-<timestamp>`."""
    prefix = "server-" if role == "server" else ""
    scenarios = {}
    for report in directory.rglob("*Z"):
        path = report.relative_to(directory).as_posix()
        name = re.fullmatch(rf"{prefix}(.+)-\d{{4}}-\d\d-\d\dT[\d-]+Z", path)
        if name:
            checks = report / "checks.json"
            scenarios[name[1]] = json.loads(checks.read_text()) if checks.exists() else []
    return scenarios


# The server


def assert_server(url):
    """Makes sure that what is about to be graded is our server, in both eras."""
    _, discovered = post(
        url,
        {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "server/discover"},
        "server/discover",
        {
            "_meta": {
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientInfo": CLIENT,
                "io.modelcontextprotocol/clientCapabilities": {},
            }
        },
    )
    meta = discovered.get("_meta", {})
    assert_name("server/discover", meta.get("io.modelcontextprotocol/serverInfo"))

    session, initialized = post(
        url,
        {},
        "initialize",
        {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": CLIENT},
    )
    assert_name("initialize", initialized.get("serverInfo"))
    if initialized.get("protocolVersion") != "2025-11-25":
        sys.exit(f"initialize at 2025-11-25 was answered at {initialized.get('protocolVersion')}")
    if session:
        headers = {"Mcp-Session-Id": session, "MCP-Protocol-Version": "2025-11-25"}
        send(url, "DELETE", None, headers)


def assert_name(method, info):
    if not isinstance(info, dict) or info.get("name") != SERVER_NAME:
        sys.exit(f"{method} is not answered by `{SERVER_NAME}` but by {json.dumps(info)}")


def post(url, headers, method, params):
    """Sends one request; gives the session's id, if any, and the result."""
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
    accept = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    try:
        response = send(url, "POST", body, {**accept, **headers})
        streamed = "text/event-stream" in response.getheader("Content-Type", "")
        reply = first_reply(response) if streamed else parse(response.read())
    except (OSError, http.client.HTTPException) as error:
        sys.exit(f"{method} was not answered by {url}: {error}")
    if "result" not in reply:
        sys.exit(f"{method} was answered with HTTP {response.status}: {json.dumps(reply)}")
    return response.getheader("Mcp-Session-Id"), reply["result"]


def first_reply(events):
    for line in events:
        reply = parse(line[len(b"data:") :]) if line.startswith(b"data:") else {}
        if "result" in reply or "error" in reply:
            return reply
    return {}


def parse(text):
    try:
        value = json.loads(text)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def send(url, verb, body, headers):
    # Not urllib.request, which would go through a proxy named in the environment.
    parts = urllib.parse.urlsplit(url)
    connection = http.client.HTTPConnection(parts.netloc, timeout=10)
    connection.request(verb, parts.path, body, headers)
    return connection.getresponse()


# Printing


def print_heading():
    columns = " ".join(f"{status:>8}" for status in (*STATUSES, "seconds"))
    print(f"{'set':24} {'clean':>7} {columns}")


def print_set(selection, graded, failed, seconds):
    clean = sum(is_clean(checks) for checks in graded.values())
    counts = collections.Counter(check["status"] for _, check in every_check(graded))
    columns = " ".join(f"{counts[status]:8}" for status in STATUSES)
    name = paint("FAILURE" if failed else "SUCCESS", f"{selection.name:24}")
    print(f"{name} {f'{clean}/{len(graded)}':>7} {columns} {seconds:8.1f}")


COLOURS = {"SUCCESS": 32, "WARNING": 33, "SKIPPED": 33, "FAILURE": 31}
COLOURED = sys.stdout.isatty() and not os.environ.get("NO_COLOR")


def paint(status, text):
    return f"\033[{COLOURS[status]}m{text}\033[0m" if COLOURED and status in COLOURS else text


def plain(text):
    """The suite colours its output whatever it goes to."""
    return text if COLOURED else re.sub(r"\033\[[\d;]*m", "", text)


def indent(text):
    return "\n".join(f"    {line}" for line in text.splitlines())


if __name__ == "__main__":
    sys.exit(main())
