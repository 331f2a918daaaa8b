"""A server made with FastMCP: a function for each script of a folder, which starts it.

fastmcp_server.py FOLDER NAME
"""

import pathlib
import subprocess
import sys

import fastmcp

folder, name = pathlib.Path(sys.argv[1]), sys.argv[2]
server = fastmcp.FastMCP(name)


def function_for(script):
    def run(name: str = "") -> str:
        ended = subprocess.run(
            [script],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            check=True,
            env={"PATH": "/usr/bin:/bin", "ARG_NAME": name},
        )
        return ended.stdout

    run.__name__ = pathlib.Path(script).stem
    run.__doc__ = f"Greets somebody, as {run.__name__} does."
    return run


for path in sorted(folder.iterdir()):
    server.tool(function_for(str(path)))

server.run(transport="stdio", show_banner=False)
