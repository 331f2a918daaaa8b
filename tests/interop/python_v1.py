"""The steps with the Python SDK 1.x, in its newest version."""

import steps
from mcp import types
from mcp.client.streamable_http import streamable_http_client
from python_sessions import Sessions


class Client(Sessions):
    revision = "2025-11-25"

    def http_client(self, url):
        return streamable_http_client(url)

    def page(self, cursor):
        return {"params": types.PaginatedRequestParams(cursor=cursor)}


if __name__ == "__main__":
    steps.main(Client)
