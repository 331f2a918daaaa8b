"""A conversation with the server over its standard input and output."""

import json
import queue
import subprocess
import threading
from collections import Counter

from mcp_types import methods

SECONDS = 10
META = "io.modelcontextprotocol/"
CLIENT = {"name": "types", "version": "1"}
CAPABILITIES = {"roots": {"listChanged": True}, "sampling": {"tools": {}}, "elicitation": {"form": {}, "url": {}}}
MODEL = {"role": "assistant", "content": {"type": "text", "text": "from the model"}, "model": "m"}
ROOTS = {"roots": [{"uri": "file:///project", "name": "project"}]}


class Broken(Exception):
    """The conversation did not go as it must."""


class Talk:
    def __init__(self, command, revision, judge, log):
        self.revision, self.judge = revision, judge
        self.stateless = revision >= "2026-07-28"
        self.asked, self.answers, self.heard = {}, {}, Counter()
        self.last_id, self.action = 0, "accept"
        pipe = subprocess.PIPE
        self.server = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=log, text=True)
        self.lines = queue.Queue()
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.server.stdout:
            self.lines.put(line)
        self.lines.put(None)

    # The client's side.

    def ask(self, method, params=None, **meta):
        """The result, after whatever the server asks on the way has been answered."""
        params = params or {}
        result = self.answer(self.request(method, params, **meta))
        while methods.is_input_required(result):
            retry = {"inputResponses": {key: self.reply(each) for key, each in result["inputRequests"].items()}}
            if "requestState" in result:
                retry["requestState"] = result["requestState"]
            result = self.answer(self.request(method, params | retry, **meta))
        return result

    def call(self, tool, arguments=None, **meta):
        return self.told(False, tool, arguments, **meta)

    def fails(self, tool, arguments=None):
        return self.told(True, tool, arguments)

    def told(self, is_error, tool, arguments, **meta):
        result = self.ask("tools/call", {"name": tool, "arguments": arguments or {}}, **meta)
        if result.get("isError", False) != is_error:
            raise Broken(f"{tool} should {'fail' if is_error else 'succeed'}: {result}")
        return result

    def refused(self, code, method, params=None, **meta):
        """Sends what is wrong on purpose."""
        answer = self.response(self.request(method, params or {}, valid=False, **meta))
        if answer.get("error", {}).get("code") != code:
            raise Broken(f"{method} {params} should be error {code}, it is {answer}")

    def pages(self, method):
        """How many there are."""
        count, page = 1, self.ask(method)
        while "nextCursor" in page:
            count, page = count + 1, self.ask(method, {"cursor": page["nextCursor"]})
        return count

    def request(self, method, params, valid=True, **meta):
        message = self.framed(method, params, **meta)
        if valid:
            methods.validate_client_request(method, self.revision, message.get("params"))
        self.heard.clear()
        self.send(message)
        return message["id"]

    def framed(self, method, params, **meta):
        if self.stateless:
            about = {"protocolVersion": self.revision, "clientInfo": CLIENT, "clientCapabilities": CAPABILITIES}
            meta = {META + key: value for key, value in about.items()} | meta
        if meta:
            params = params | {"_meta": meta}
        self.last_id += 1
        self.asked[self.last_id] = method
        message = {"jsonrpc": "2.0", "id": self.last_id, "method": method}
        return message | ({"params": params} if params else {})

    def notify(self, method, params=None):
        methods.validate_client_notification(method, self.revision, params)
        self.send({"jsonrpc": "2.0", "method": method} | ({"params": params} if params else {}))

    def send(self, message):
        self.send_line(json.dumps(message))

    def send_line(self, line):
        self.server.stdin.write(line + "\n")
        self.server.stdin.flush()

    # The server's side.

    def answer(self, id):
        message = self.response(id)
        if "result" not in message:
            raise Broken(f"{self.asked[id]} was answered with {message}")
        return message["result"]

    def response(self, id):
        self.until(lambda: id in self.answers, f"answer to {self.asked.get(id, id)}")
        return self.answers.pop(id)

    def hear(self, method, times=1):
        """Waits until the last request has brought that many messages of the method."""
        self.until(lambda: self.heard[method] >= times, method)

    def until(self, true, what):
        while not true():
            if not self.receive(what):
                raise Broken(f"the server ended before {what}")

    def receive(self, what):
        """Takes one line in, waiting for `what`; says whether there was one."""
        try:
            line = self.lines.get(timeout=SECONDS)
        except queue.Empty:
            raise Broken(f"no {what} within {SECONDS} s") from None
        if line is None:
            return False
        try:
            message = json.loads(line)
        except ValueError:
            raise Broken(f"not JSON: {line}") from None
        if isinstance(message, list):
            self.judge.hear_untyped("batch", message)
        for each in message if isinstance(message, list) else [message]:
            self.take(each)
        return True

    def take(self, message):
        if not isinstance(message, dict):
            raise Broken(f"not a message: {message}")
        id, method = message.get("id"), message.get("method")
        self.judge.hear(message, self.asked.get(id))
        if method is None:
            self.answers[id] = message
            return
        self.heard[method] += 1
        if "id" in message:
            result = self.reply(message)
            methods.validate_client_result(method, self.revision, result)
            self.send({"jsonrpc": "2.0", "id": id, "result": result})

    def reply(self, question):
        match question["method"]:
            case "sampling/createMessage":
                return MODEL
            case "roots/list":
                return ROOTS
            case "elicitation/create" if self.action == "accept":
                form = question["params"].get("requestedSchema", {"properties": {}})
                content = {name: filled(field) for name, field in form["properties"].items()}
                return {"action": "accept", "content": content}
            case "elicitation/create":
                return {"action": self.action}
            case _:
                return {}

    # The end.

    def end(self):
        """Ends the server by the end of its input, hearing it out."""
        self.server.stdin.close()
        while self.receive("end of output"):
            pass
        status = self.server.wait(SECONDS)
        if status:
            raise Broken(f"the server ended with status {status}")

    def stop(self):
        self.server.kill()
        self.server.wait()


def filled(field):
    """A valid answer to a field of a form."""
    if "enum" in field:
        return field["enum"][0]
    if "oneOf" in field or "anyOf" in field:
        return (field.get("oneOf") or field["anyOf"])[0]["const"]
    match field["type"]:
        case "array":
            return [filled(field["items"])]
        case "boolean":
            return True
        case "integer" | "number":
            return 1
        case _:
            return "ada"
