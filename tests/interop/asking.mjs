// What TypeScript clients are asked in the middle of a call, and what the server makes of the answers.

import assert from 'node:assert/strict';

import { ROOTS, STEPS as USUAL, main as perform, text } from './steps.mjs';

export const CAPABILITIES = {
  // The SDK fills in the defaults of a form itself.
  elicitation: { form: { applyDefaults: true }, url: {} },
  sampling: { tools: {} },
  roots: {},
};

// The form of each kind of choice, and what the user picks.
const PICKED = {
  untitledSingle: 'option2',
  titledSingle: 'value3',
  legacyEnum: 'opt1',
  untitledMulti: ['option1', 'option3'],
  titledMulti: ['value1', 'value2'],
};
const DEFAULTS = ['John Doe', 30, 95.5, 'active', true];
const DRAWN = { type: 'image', data: 'iVBORw0KGgo=', mimeType: 'image/png' };
const WISH = { type: 'tool_use', id: 'use-1', name: 'thermometer', input: { place: 'Oslo' } };

/** Answers that are given one after another, and what was asked. */
export class Answers {
  willBe(...answers) {
    [this.next, this.asked] = [answers, []];
  }

  to(question) {
    this.asked.push(question);
    const answer = this.next.shift();
    return typeof answer === 'function' ? answer(question) : answer;
  }
}

const accept = content => ({ action: 'accept', content });
const words = said => ({ type: 'text', text: said });
const modelSays = (content, stopReason = 'endTurn') => ({ role: 'assistant', model: 'interop', content, stopReason });
const blocks = message => [message.content].flat();

/** What the tool said that the model used. */
function resultIn({ messages }) {
  const [[wish], [result]] = messages.slice(-2).map(blocks);
  assert(wish.id === WISH.id && result.toolUseId === WISH.id, JSON.stringify(messages));
  return result.content[0].text;
}

function assertArrived(values, said) {
  const missing = values.filter(value => !said.includes(JSON.stringify(value)));
  assert.deepEqual(missing, [], `${missing} did not arrive: ${said}`);
}

const STEPS = {
  connect: USUAL.connect,

  async choices(client) {
    client.user.willBe(accept(PICKED));
    const said = text(await client.call('test_elicitation_sep1330_enums', {}));
    const [{ requestedSchema }] = client.user.asked;
    const fields = requestedSchema.properties;
    assert.deepEqual(Object.keys(fields).sort(), Object.keys(PICKED).sort(), `the fields are ${Object.keys(fields)}`);
    assert.deepEqual(fields.titledMulti.items.anyOf[0], { const: 'value1', title: 'First' }, 'a titled choice of many');
    assert.deepEqual(fields.untitledMulti.items.enum, ['option1', 'option2', 'option3'], 'a choice of many');
    assert.equal(fields.legacyEnum.enumNames[0], 'Option One', 'a choice with names');
    assertArrived(Object.values(PICKED).flat(), said);
  },

  async defaults(client) {
    client.user.willBe(accept({}));
    assertArrived(DEFAULTS, text(await client.call('test_elicitation_sep1034_defaults', {})));
  },

  async declined(client) {
    client.user.willBe({ action: 'decline' });
    const said = text(await client.call('test_elicitation', { message: 'who?' }));
    assert(said.includes('action=decline'), said);
  },

  async cancelled(client) {
    client.user.willBe({ action: 'cancel' });
    const said = text(await client.call('test_elicitation', { message: 'who?' }));
    assert(said.includes('action=cancel'), said);
  },

  async page(client) {
    for (const action of ['accept', 'decline']) {
      client.user.willBe({ action });
      const said = text(await client.call('test_elicitation_page', {}));
      const [{ mode, url }] = client.user.asked;
      assert(mode === 'url' && url === 'https://example.com/sign-in', `asked for ${mode} ${url}`);
      assert(said.includes(`action=${action}`), said);
    }
  },

  async media(client) {
    client.model.willBe(modelSays(DRAWN));
    const result = await client.call('test_sampling_media', {});
    const [{ messages }] = client.model.asked;
    const kinds = messages.flatMap(blocks).map(block => block.type);
    assert.deepEqual(kinds, ['text', 'image', 'audio'], `the model was shown ${kinds}`);
    assert.deepEqual(result.content, [DRAWN], JSON.stringify(result.content));
  },

  async tool_use(client) {
    client.model.willBe(modelSays([WISH], 'toolUse'), question => modelSays(words(resultIn(question))));
    const said = text(await client.call('test_sampling_tools', {}));
    const [{ tools }] = client.model.asked;
    assert.deepEqual(tools.map(tool => tool.name), ['thermometer'], JSON.stringify(tools));
    assert.equal(said, '21.5 degrees in Oslo', said);
  },

  async rounds(client) {
    client.user.willBe(accept({ name: 'ada' }), accept({ color: 'blue' }));
    const said = text(await client.call('test_input_required_result_multi_round', {}));
    assert.equal(client.user.asked.length, 2, `asked ${client.user.asked.length} times`);
    assert.equal(said, '"ada" likes "blue"', said);
  },

  async together(client) {
    client.user.willBe(accept({ name: 'ada' }));
    client.model.willBe(modelSays(words('Good day')));
    const said = text(await client.call('test_input_required_result_multiple_inputs', {}));
    assert.equal(said, `Good day ada (${ROOTS.roots.length} roots)`, said);
  },

  async array_output(client) {
    const result = await client.call('test_array_output', {});
    assert.deepEqual(JSON.parse(text(result)), [1, 2, 3], text(result));
    // Before 2026-07-28 structure is an object.
    const expected = client.revision >= '2026-07-28' ? [1, 2, 3] : undefined;
    assert.deepEqual(result.structuredContent, expected, `structuredContent is ${JSON.stringify(result.structuredContent)}`);
  },

  close: USUAL.close,
};

export const main = Adapter => perform(Adapter, STEPS);
