"""What is said to the server so that it sends one of everything."""

import json

from mcp_types import methods
from talk import CAPABILITIES, CLIENT, META, Broken

NAME = "zcp-everything"
WATCHED = "test://watched-resource"
WATCHING = {"toolsListChanged": True, "promptsListChanged": True, "resourcesListChanged": True}


def perform(talk):
    for part in (greet, lists, contents, reports, questions, resources, prompts, changes, cancelled, errors):
        part(talk)


def greet(talk):
    if talk.stateless:
        name = talk.ask("server/discover")["_meta"][META + "serverInfo"]["name"]
    else:
        hello = {"protocolVersion": talk.revision, "capabilities": CAPABILITIES, "clientInfo": CLIENT}
        result = talk.ask("initialize", hello)
        name = result["serverInfo"]["name"]
        if result["protocolVersion"] != talk.revision:
            raise Broken(f"the server speaks {result['protocolVersion']}")
        talk.notify("notifications/initialized")
        talk.ask("ping")
    if name != NAME:
        raise Broken(f"the server calls itself {name}, not {NAME}")


def lists(talk):
    if talk.pages("tools/list") < 2:
        raise Broken("the tools fit on one page")
    for method in ("resources/list", "resources/templates/list", "prompts/list"):
        talk.pages(method)
    if talk.revision == "2025-03-26":
        batch = [talk.framed("ping", {}), talk.framed("tools/list", {})]
        talk.send(batch)
        for message in batch:
            talk.answer(message["id"])


def contents(talk):
    for tool in (
        "test_simple_text",
        "test_image_content",
        "test_audio_content",
        "test_embedded_resource",
        "test_multiple_content_types",
        "test_array_output",
    ):
        talk.call(tool)
    talk.call("add", {"a": 1, "b": 2})
    talk.call("test_structured_output", {"city": "Oslo"})
    talk.call("json_schema_2020_12_tool", {"name": "Ada", "email": "ada@example.com"})
    for tool in ("test_error_handling", "test_invalid_output", "test_panic"):
        talk.fails(tool)


def reports(talk):
    for token in (7, "seven"):
        talk.call("test_tool_with_progress", progressToken=token)
        talk.hear("notifications/progress", 3)
    talk.call("slow_compute", {"seconds": 0.2, "label": "with words"}, progressToken=8)
    level = {META + "logLevel": "debug"} if talk.stateless else {}
    if not talk.stateless:
        talk.ask("logging/setLevel", {"level": "debug"})
    for tool, times in {"test_tool_with_logging": 3, "test_logging_tool": 8}.items():
        talk.call(tool, **level)
        talk.hear("notifications/message", times)


def questions(talk):
    talk.call("test_sampling", {"prompt": "hi"})
    talk.call("test_list_roots")
    talk.call("test_input_required_result_sampling")
    talk.call("test_input_required_result_list_roots")
    if not can_elicit(talk):
        talk.fails("test_elicitation", {"message": "Who?"})
        return
    for talk.action in ("decline", "cancel", "accept"):
        talk.call("test_elicitation", {"message": "Who?"})
    for tool in (
        "test_streaming_elicitation",
        "test_elicitation_sep1034_defaults",
        "test_elicitation_sep1330_enums",
        "test_input_required_result_elicitation",
        "test_input_required_result_request_state",
        "test_input_required_result_multiple_inputs",
        "test_input_required_result_multi_round",
        "test_input_required_result_capabilities",
    ):
        talk.call(tool, progressToken=tool)
    talk.ask("prompts/get", {"name": "test_input_required_result_prompt"})


def can_elicit(talk):
    return talk.stateless or ("elicitation/create", talk.revision) in methods.SERVER_REQUESTS


def resources(talk):
    for uri in ("test://static-text", "test://static-binary", "test://template/123/data", WATCHED):
        talk.ask("resources/read", {"uri": uri})


def prompts(talk):
    for name, arguments in {
        "test_simple_prompt": {},
        "test_prompt_with_arguments": {"arg1": "one", "arg2": "two"},
        "test_prompt_with_embedded_resource": {"resourceUri": "test://embedded"},
        "test_prompt_with_image": {},
    }.items():
        talk.ask("prompts/get", {"name": name, "arguments": arguments})
    for ref, argument in (
        ({"type": "ref/prompt", "name": "test_prompt_with_arguments"}, {"name": "arg1", "value": "par"}),
        ({"type": "ref/resource", "uri": "test://template/{id}/data"}, {"name": "id", "value": "12"}),
    ):
        talk.ask("completion/complete", {"ref": ref, "argument": argument})


def changes(talk):
    if talk.stateless:
        listen(talk, WATCHING | {"resourceSubscriptions": [WATCHED]})
    else:
        talk.ask("resources/subscribe", {"uri": WATCHED})
    for tool, notification in {
        "test_trigger_resource_update": "notifications/resources/updated",
        "test_trigger_tool_change": "notifications/tools/list_changed",
        "test_trigger_prompt_change": "notifications/prompts/list_changed",
    }.items():
        talk.call(tool)
        talk.hear(notification)
    if not talk.stateless:
        talk.ask("resources/unsubscribe", {"uri": WATCHED})


def listen(talk, wanted):
    """Its id. Unless it is cancelled, the server ends it when it ends itself."""
    id = talk.request("subscriptions/listen", {"notifications": wanted})
    talk.hear("notifications/subscriptions/acknowledged")
    return id


def cancelled(talk):
    slow = {"name": "slow_compute", "arguments": {"seconds": 30, "label": "slow"}}
    id = talk.request("tools/call", slow, progressToken="slow")
    talk.hear("notifications/progress")
    talk.notify("notifications/cancelled", {"requestId": id, "reason": "enough"})
    if talk.stateless:
        talk.notify("notifications/cancelled", {"requestId": listen(talk, WATCHING)})
    talk.call("test_cancelled_labels")


def errors(talk):
    talk.refused(-32601, "no/such")
    talk.refused(-32601, "ping" if talk.stateless else "server/discover")
    talk.refused(-32602, "tools/call", {"name": "no_such_tool"})
    talk.refused(-32602, "tools/call", {"arguments": {}})
    talk.refused(-32602, "tools/list", {"cursor": "no such page"})
    talk.refused(-32602, "prompts/get", {"name": "no_such_prompt"})
    talk.refused(-32602 if talk.stateless else -32002, "resources/read", {"uri": "test://nope"})
    if talk.stateless:
        talk.refused(-32022, "tools/list", **{META + "protocolVersion": "1999-01-01"})
        no_model = {META + "clientCapabilities": {}}
        talk.refused(-32021, "tools/call", {"name": "test_missing_capability"}, **no_model)
    talk.send_line("{")
    talk.send_line(json.dumps({"jsonrpc": "2.0", "id": "no method"}))
    for id in (None, "no method"):
        talk.response(id)
