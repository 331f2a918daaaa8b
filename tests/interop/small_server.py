"""A small server, written for whichever Python SDK runs it.

    small_server.py stdio
    small_server.py http PORT
"""

import sys

try:
    from fastmcp import FastMCP as Server

    KIT = "fastmcp"
except ImportError:
    try:
        from mcp.server.mcpserver import MCPServer as Server

        KIT = "python-v2"
    except ImportError:
        from mcp.server.fastmcp import FastMCP as Server

        KIT = "python-v1"

server = Server(f"small-{KIT}")


@server.tool()
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool()
def fail() -> str:
    """Always fails."""
    raise ValueError("as it should")


@server.resource("small://text")
def text() -> str:
    return "some text"


@server.prompt()
def greet(name: str) -> str:
    return f"Greet {name}."


def main():
    if sys.argv[1] == "stdio":
        return server.run(transport="stdio")
    port = int(sys.argv[2])
    try:
        # Since 2.0, and fastmcp: where to listen is said when it is run.
        server.run(transport="streamable-http", host="127.0.0.1", port=port)
    except TypeError:
        server.settings.port = port
        server.run(transport="streamable-http")


main()
