"""The steps with older versions of the Python SDK, each of which speaks the revision of its time."""

from importlib.metadata import version

import steps
from python_sessions import Sessions

REVISIONS = {"1.6.0": "2024-11-05", "1.9.4": "2025-03-26", "1.10.0": "2025-06-18"}
NO_FORMS = "forms came with 2025-06-18"
NO_PROGRESS = "`call_tool` takes no callback for progress"
CANNOT = {
    "1.6.0": {
        "list_pages": "lists take no cursor",
        "progress": NO_PROGRESS,
        "cancel": f"the id of a call is known by its progress, and {NO_PROGRESS}",
        "stays_cancelled": f"the id of a call is known by its progress, and {NO_PROGRESS}",
        "elicitation": NO_FORMS,
    },
    "1.9.4": {"elicitation": NO_FORMS},
    "1.10.0": {},
}


class Client(Sessions):
    version = version("mcp")
    revision = REVISIONS[version]
    cannot = CANNOT[version]
    kills_servers = True

    def callbacks(self):
        callbacks = super().callbacks()
        if "elicitation" in self.cannot:
            del callbacks["elicitation_callback"]
        return callbacks

    def http_client(self, url):
        if self.transport == "sse":
            from mcp.client.sse import sse_client

            return sse_client(url)
        from mcp.client.streamable_http import streamablehttp_client

        return streamablehttp_client(url)

    def page(self, cursor):
        return {} if "list_pages" in self.cannot else {"cursor": cursor}

    async def call(self, name, arguments, progress=None):
        if progress is None:
            return steps.wire(await self.session.call_tool(name, arguments))
        return await super().call(name, arguments, progress)


if __name__ == "__main__":
    steps.main(Client)
