"""The server of the official Python SDK: `server.py stdio`, or `server.py http PORT MODE`.

It is the SDK's low-level server, which is its fastest, and it serves both revisions at once.
"""

import asyncio
import json
import sys
from pathlib import Path

import uvicorn
from mcp import types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler

USAGE = "use `stdio`, `http PORT modern` or `http PORT session`"
# Its default is 1024.
MANY = 1 << 20
TOOLS = Path(__file__).parents[2] / "tools.json"


def bench_server():
    tools = [types.Tool.model_validate(tool) for tool in json.loads(TOOLS.read_bytes())]
    listed = types.ListToolsResult(tools=tools)

    async def list_tools(context, params):
        return listed

    return Server(
        "bench",
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_subscriptions_listen=ListenHandler(InMemorySubscriptionBus(), max_subscriptions=MANY),
    )


async def call_tool(context, params):
    arguments = params.arguments or {}
    match params.name:
        case "echo":
            return text_result(arguments["text"])
        case "add":
            total = {"sum": arguments["a"] + arguments["b"]}
            return text_result(json.dumps(total), structured_content=total)
        case _:
            return text_result("ok")


def text_result(text, **more):
    return types.CallToolResult(content=[types.TextContent(text=text)], **more)


async def serve_stdio():
    server = bench_server()
    async with stdio_server() as (receiving, sending):
        await server.run(receiving, sending, server.create_initialization_options())


def serve_http(port):
    """Answers are plain JSON, and there may be any number of sessions."""
    app = bench_server().streamable_http_app(json_response=True, max_sessions=None)
    uvicorn.run(
        app,
        host="127.0.0.1",
        port=port,
        loop="uvloop",
        http="httptools",
        access_log=False,
        log_level="warning",
    )


def main(words):
    match words:
        case ["stdio"]:
            asyncio.run(serve_stdio())
        case ["http", port, "modern" | "session"]:
            serve_http(int(port))
        case _:
            sys.exit(USAGE)


main(sys.argv[1:])
