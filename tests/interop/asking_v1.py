"""What the Python SDK 1.x is asked, in its newest version."""

import asking
import python_v1
from mcp import types
from steps import wire


class Client(python_v1.Client):
    def __init__(self, transport, target):
        super().__init__(transport, target)
        self.user, self.model = asking.Answers(), asking.Answers()

    def callbacks(self):
        with_tools = types.SamplingCapability(tools=types.SamplingToolsCapability())
        return super().callbacks() | {"sampling_capabilities": with_tools}

    async def elicit(self, context, params):
        return types.ElicitResult.model_validate(self.user.to(wire(params)))

    async def sample(self, context, params):
        kind = types.CreateMessageResultWithTools if params.tools else types.CreateMessageResult
        return kind.model_validate(self.model.to(wire(params)))


if __name__ == "__main__":
    asking.main(Client)
