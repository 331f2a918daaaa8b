"""Judges each message the server sends by the official type of its method and revision.

The package has two schemas: 2026-07-28, and 2025-11-25 for every revision before. What a revision
before that lacks is therefore not seen here.
"""

import json
from collections import Counter
from types import UnionType
from typing import get_args

import mcp_types as types
from mcp_types import _v2025_11_25, _v2026_07_28, jsonrpc, methods
from pydantic import TypeAdapter, ValidationError

KINDS = ["request", "notification", "result", "error"]
TYPES = {
    "request": (methods.SERVER_REQUESTS, methods.MONOLITH_REQUESTS),
    "notification": (methods.SERVER_NOTIFICATIONS, methods.MONOLITH_NOTIFICATIONS),
    "result": (methods.SERVER_RESULTS, methods.MONOLITH_RESULTS),
}
ERROR_DATA = {
    types.UNSUPPORTED_PROTOCOL_VERSION: types.UnsupportedProtocolVersionErrorData,
    types.MISSING_REQUIRED_CLIENT_CAPABILITY: types.MissingRequiredClientCapabilityErrorData,
    types.URL_ELICITATION_REQUIRED: types.ElicitationRequiredErrorData,
}

# What the package has no type for, and why it may be sent.
UNTYPED = {"batch": "2025-03-26 lets messages come in an array; each of them is checked"}


class Judge:
    """Counts what one conversation brought, and keeps what is wrong with it."""

    def __init__(self, revision):
        self.revision = revision
        self.schema = _v2026_07_28 if revision >= "2026-07-28" else _v2025_11_25
        self.checked, self.unchecked = Counter(), Counter()
        self.seen, self.failures = set(), []
        self.possible = {(kind, method) for kind in TYPES for method, date in TYPES[kind][0] if date == revision}

    def hear(self, message, asked):
        """Takes a message; `asked` is the method it answers, if it is an answer."""
        kind, method = kind_of(message), message.get("method", asked)
        if kind != "error" and (kind, method) not in self.possible:
            self.hear_untyped(f"{kind} of {method}", message)
            return
        self.seen.add((kind, method))
        self.checked[kind] += 1
        if wrong := self.faults(kind, method, message):
            lines = "".join(f"\n    {fault}" for fault in wrong)
            self.failures.append(f"{kind} of {method}: {json.dumps(message)}{lines}")

    def hear_untyped(self, name, message):
        self.unchecked[name] += 1
        if name not in UNTYPED:
            self.failures.append(f"the package has no type for a {name}: {json.dumps(message)}")

    def faults(self, kind, method, message):
        wrong = misfits(self.envelope(kind), message)
        if wrong:
            return wrong
        if kind == "error":
            data = ERROR_DATA.get(message["error"]["code"])
            return misfits(data, message["error"].get("data")) if data else []

        whole = message["result"] if kind == "result" else message
        part = whole if kind == "result" else {key: message[key] for key in message.keys() & {"method", "params"}}
        by_revision, by_method = TYPES[kind]
        wrong += misfits(arm(by_revision[method, self.revision], whole), whole)
        wrong += misfits(arm(by_method[method], part), part)
        return wrong or [fault for shape, value in self.loose(whole) for fault in misfits(shape, value)]

    def envelope(self, kind):
        match kind:
            case "request":
                return jsonrpc.JSONRPCRequest
            case "notification":
                return jsonrpc.JSONRPCNotification
            case "result":
                return jsonrpc.JSONRPCResponse
            # The package's general type wants an id, if only null, where the schemas let an error
            # have none.
            case "error":
                return self.schema.JSONRPCErrorResponse

    def loose(self, part):
        """What the type of the whole lets be anything, with the schema's own type for it."""
        if server := part.get("_meta", {}).get("io.modelcontextprotocol/serverInfo"):
            yield self.schema.Implementation, server
        for question in [part, *part.get("inputRequests", {}).values()]:
            form = question.get("params", {}).get("requestedSchema", {})
            yield from ((self.schema.PrimitiveSchemaDefinition, field) for field in form.get("properties", {}).values())


def kind_of(message):
    if "method" in message:
        return "request" if "id" in message else "notification"
    return "result" if "result" in message else "error"


def arm(shape, result):
    """The one of two types that a result says it is: a wrong one of either may fit the other."""
    if not isinstance(shape, UnionType):
        return shape
    asks = methods.is_input_required(result)
    [claimed] = [each for each in get_args(shape) if (each.__name__ == "InputRequiredResult") == asks]
    return claimed


# Extensions are older than their place in the schema: clients of every age look for them there.
LATE = {".capabilities.extensions"}


def misfits(shape, value):
    """What the type refuses; and what it would ignore, or read as something else."""
    name, adapter = getattr(shape, "__name__", str(shape)), TypeAdapter(shape)
    try:
        read = adapter.validate_python(value, by_name=False)
    except ValidationError as error:
        return [f"{name}: {'.'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in error.errors()]
    kept = adapter.dump_python(read, by_alias=True, mode="json", exclude_none=True)
    return [f"{name}: {change}" for change in changes(value, kept)]


def changes(sent, kept, path=""):
    if isinstance(sent, dict) and isinstance(kept, dict):
        for key, value in sent.items():
            if key in kept:
                yield from changes(value, kept[key], f"{path}.{key}")
            elif f"{path}.{key}" not in LATE:
                yield f"{path}.{key} is {'null' if value is None else 'not in the schema'}"
    elif isinstance(sent, list) and isinstance(kept, list) and len(sent) == len(kept):
        for index, pair in enumerate(zip(sent, kept)):
            yield from changes(*pair, f"{path}[{index}]")
    elif sent != kept or isinstance(sent, bool) != isinstance(kept, bool):
        yield f"{path} is {sent!r}, read as {kept!r}"
