"""What Python clients are asked in the middle of a call, and what the server makes of the answers."""

import json

import steps
from steps import text

# The form of each kind of choice, and what the user picks.
PICKED = {
    "untitledSingle": "option2",
    "titledSingle": "value3",
    "legacyEnum": "opt1",
    "untitledMulti": ["option1", "option3"],
    "titledMulti": ["value1", "value2"],
}
DEFAULTS = {"name": "John Doe", "age": 30, "score": 95.5, "status": "active", "verified": True}
DRAWN = {"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"}
WISH = {"type": "tool_use", "id": "use-1", "name": "thermometer", "input": {"place": "Oslo"}}


class Answers:
    """Answers that are given one after another, and what was asked."""

    def will_be(self, *answers):
        self.next, self.asked = list(answers), []

    def to(self, question):
        self.asked.append(question)
        answer = self.next.pop(0)
        return answer(question) if callable(answer) else answer


def accept(content):
    return {"action": "accept", "content": content}


def model_says(content, reason="endTurn"):
    return {"role": "assistant", "model": "interop", "content": content, "stopReason": reason}


def words(said):
    return {"type": "text", "text": said}


def blocks(message):
    content = message["content"]
    return content if isinstance(content, list) else [content]


async def choices(client):
    client.user.will_be(accept(PICKED))
    said = text(await client.call("test_elicitation_sep1330_enums", {}))
    [form] = client.user.asked
    fields = form["requestedSchema"]["properties"]
    assert set(fields) == set(PICKED), f"the fields are {sorted(fields)}"
    assert fields["titledMulti"]["items"]["anyOf"][0] == {"const": "value1", "title": "First"}, fields["titledMulti"]
    assert fields["untitledMulti"]["items"]["enum"] == ["option1", "option2", "option3"], fields["untitledMulti"]
    assert fields["legacyEnum"]["enumNames"][0] == "Option One", fields["legacyEnum"]
    picked = [value for each in PICKED.values() for value in (each if isinstance(each, list) else [each])]
    missing = [value for value in picked if f'"{value}"' not in said]
    assert not missing, f"{missing} did not arrive: {said}"


async def defaults(client):
    # Filling them in is up to the user's side in this SDK.
    client.user.will_be(
        lambda form: accept({name: field["default"] for name, field in form["requestedSchema"]["properties"].items()})
    )
    said = text(await client.call("test_elicitation_sep1034_defaults", {}))
    missing = [value for value in DEFAULTS.values() if json.dumps(value) not in said]
    assert not missing, f"{missing} did not arrive: {said}"


async def declined(client):
    client.user.will_be({"action": "decline"})
    said = text(await client.call("test_elicitation", {"message": "who?"}))
    assert "action=decline" in said, said


async def cancelled(client):
    client.user.will_be({"action": "cancel"})
    said = text(await client.call("test_elicitation", {"message": "who?"}))
    assert "action=cancel" in said, said


async def page(client):
    for action in ["accept", "decline"]:
        client.user.will_be({"action": action})
        said = text(await client.call("test_elicitation_page", {}))
        [asked] = client.user.asked
        assert asked["mode"] == "url" and asked["url"] == "https://example.com/sign-in", asked
        assert f"action={action}" in said, said


async def media(client):
    client.model.will_be(model_says(DRAWN))
    result = await client.call("test_sampling_media", {})
    [question] = client.model.asked
    kinds = [block["type"] for message in question["messages"] for block in blocks(message)]
    assert kinds == ["text", "image", "audio"], f"the model was shown {kinds}"
    [block] = result["content"]
    assert {key: block[key] for key in DRAWN} == DRAWN, block


async def tool_use(client):
    client.model.will_be(model_says([WISH], "toolUse"), lambda question: model_says(words(result_in(question))))
    said = text(await client.call("test_sampling_tools", {}))
    first, _ = client.model.asked
    assert [tool["name"] for tool in first["tools"]] == ["thermometer"], first
    assert said == "21.5 degrees in Oslo", said


def result_in(question):
    """What the tool said that the model used."""
    *_, wished, answered = question["messages"]
    [wish], [result] = blocks(wished), blocks(answered)
    assert wish["id"] == result["toolUseId"] == WISH["id"], question
    return result["content"][0]["text"]


async def rounds(client):
    client.user.will_be(accept({"name": "ada"}), accept({"color": "blue"}))
    said = text(await client.call("test_input_required_result_multi_round", {}))
    assert len(client.user.asked) == 2, client.user.asked
    assert said == '"ada" likes "blue"', said


async def together(client):
    client.user.will_be(accept({"name": "ada"}))
    client.model.will_be(model_says(words("Good day")))
    said = text(await client.call("test_input_required_result_multiple_inputs", {}))
    assert said == "Good day ada (1 roots)", said


async def array_output(client):
    result = await client.call("test_array_output", {})
    assert json.loads(text(result)) == [1, 2, 3], result
    # Before 2026-07-28 structure is an object.
    expected = [1, 2, 3] if client.revision >= "2026-07-28" else None
    assert result.get("structuredContent") == expected, f"structuredContent is {result.get('structuredContent')}"


STEPS = [
    steps.connect, choices, defaults, declined, cancelled, page, media, tool_use, rounds, together, array_output,
    steps.close,
]


def main(adapter):
    steps.main(adapter, STEPS)
