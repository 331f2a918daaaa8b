"""Whether a server is really ours: the program cargo built, answering as only ours does."""

import http.client
import json
import os
import pathlib
import subprocess

from . import places
from .servers import Running

NAME = "bench"
PROGRAM = "zcp-default"
SERVER_INFO = "io.modelcontextprotocol/serverInfo"
CLIENT = {"name": "bench", "version": "1.0"}
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": CLIENT,
    "io.modelcontextprotocol/clientCapabilities": {},
}
INITIALIZE = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": CLIENT}


class Impostor(RuntimeError):
    """Another server was about to be graded as ours."""


def require_ours(server):
    """Asks on every wire that is graded."""
    expected = places.release() / PROGRAM
    if server.command != (str(expected),):
        raise Impostor(f"servers.json starts {' '.join(server.command)}, not {expected}")
    with Running(server, "modern") as running:
        require("the program", program(running.pid), str(expected.resolve()))
        require("its page /metadata", name_on_page(running.port), NAME)
        require("server/discover", name_when_discovered(running.port), NAME)
        require("initialize", name_when_initialized(running.port), NAME)
    require("initialize on stdio", name_on_stdio(server), NAME)


def require(what, found, wanted):
    if found != wanted:
        raise Impostor(f"this is not our server: {what} says {found!r}, not {wanted!r}")


def program(pid):
    return str(pathlib.Path(os.readlink(f"/proc/{pid}/exe")).resolve())


def name_on_page(port):
    """Only our server has this page."""
    return exchange(port, "GET", "/metadata").get("serverInfo", {}).get("name")


def name_when_discovered(port):
    headers = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "server/discover"}
    answer = exchange(port, "POST", "/mcp", message("server/discover", {"_meta": META}), headers)
    return answer.get("result", {}).get("_meta", {}).get(SERVER_INFO, {}).get("name")


def name_when_initialized(port):
    answer = exchange(port, "POST", "/mcp", message("initialize", INITIALIZE))
    return answer.get("result", {}).get("serverInfo", {}).get("name")


def name_on_stdio(server):
    line = json.dumps(message("initialize", INITIALIZE)) + "\n"
    command = [*server.command, "stdio"]
    said = subprocess.run(
        command, input=line, capture_output=True, text=True, timeout=30, check=False
    )
    answer = json.loads(said.stdout.partition("\n")[0] or "{}")
    return answer.get("result", {}).get("serverInfo", {}).get("name")


def message(method, params):
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


def exchange(port, verb, path, body=None, headers=None):
    """A request and its answer; an answer that is no JSON is an empty one."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    known = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    connection.request(verb, path, json.dumps(body) if body else None, {**known, **(headers or {})})
    text = connection.getresponse().read()
    connection.close()
    try:
        return json.loads(text)
    except ValueError:
        return {}
