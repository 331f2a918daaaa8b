// What every TypeScript client is asked to do, and what must come of it.
//
// A program brings an adapter with the methods called here; one set of assertions fits every SDK.

import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';

const STEP_SECONDS = 20;
// Clients come back for a stream that ended without a response after a second or so, several times.
const STAYS_SECONDS = 10;
const SERVER_ARGS = ['--stdio', '--page-size', '15'];

const TOOLS = [
  'test_simple_text', 'test_tool_with_progress', 'test_tool_with_logging', 'test_structured_output',
  'test_invalid_output', 'slow_compute', 'test_cancelled_labels', 'test_sampling', 'test_elicitation',
  'test_list_roots', 'test_runs', 'test_trigger_resource_update', 'test_trigger_tool_change',
];
const FORECAST = { city: 'Oslo', temperature: 21.5, conditions: 'clear' };
const WATCHED = 'test://watched-resource';

export const SAMPLED = {
  role: 'assistant', model: 'interop', content: { type: 'text', text: "from the client's model" },
};
export const ELICITED = { action: 'accept', content: { username: 'ada', email: 'ada@example.com' } };
export const ROOTS = { roots: [{ uri: 'file:///tmp/project' }] };
export const CAPABILITIES = { sampling: {}, elicitation: {}, roots: {} };

/** Starts the server so that the way it ended can be read afterwards. */
export class Witness {
  folder = mkdtempSync(join(tmpdir(), 'interop-'));
  file = join(this.folder, 'status');
  command = fileURLToPath(new URL('witness', import.meta.url));

  constructor(server) {
    this.args = [this.file, server, ...SERVER_ARGS];
    process.on('exit', () => rmSync(this.folder, { recursive: true, force: true }));
  }

  /** Asserts that the server ends by itself while `close` runs. */
  async sees(close) {
    // A client may have run the server before, only to ask what it speaks.
    rmSync(this.file, { force: true });
    await close();
    await eventually(() => existsSync(this.file) && readFileSync(this.file, 'utf8'), 2);
    const status = existsSync(this.file) ? readFileSync(this.file, 'utf8').trim() : 'killed';
    assert.equal(status, '0', `the server's exit status: ${status}`);
    return 'the server exited by itself';
  }
}

/** Notifications in the order they came, for one reader. */
export class Inbox {
  #kept = [];
  #reader;

  push(value) {
    if (this.#reader) this.#reader(value);
    else this.#kept.push(value);
    this.#reader = undefined;
  }

  async next() {
    if (this.#kept.length) return this.#kept.shift();
    return await new Promise(resolve => (this.#reader = resolve));
  }
}

/** Waits until `holds()`, or the time is up; the caller asserts. */
async function eventually(holds, seconds) {
  const end = Date.now() + seconds * 1000;
  while (!holds() && Date.now() < end) await sleep(20);
}

export const text = result => result.content.filter(block => block.type === 'text').map(block => block.text).join('\n');
const firstLine = value => String(value).trim().split('\n')[0].slice(0, 600);

/** All items of a paged list. */
async function every(fetch, key) {
  let page = await fetch(undefined);
  const items = [...page[key]];
  while (page.nextCursor !== undefined) {
    page = await fetch(page.nextCursor);
    items.push(...page[key]);
  }
  return items;
}

async function cancelledLabels(client) {
  const labels = JSON.parse(text(await client.call('test_cancelled_labels', {})));
  assert(Array.isArray(labels), `not a list: ${labels}`);
  return labels;
}

/** Cancels a call after its first progress notification; gives its label. */
async function beginAndCancel(client) {
  const label = `interop-${randomUUID()}`;
  const abort = new AbortController();
  let started;
  const first = new Promise(resolve => (started = resolve));
  const call = client
    .call('slow_compute', { seconds: 30, label }, { signal: abort.signal, onprogress: () => started('progress') })
    .then(result => `answered ${JSON.stringify(result)}`, error => `raised ${error.message}`);
  assert.equal(await Promise.race([first, call]), 'progress', 'ended without progress');
  abort.abort('no longer wanted');
  assert.match(await call, /^raised/);
  return label;
}

const runsOf = async (client, label) => JSON.parse(text(await client.call('test_runs', { label })));

/** The tool stops within a second of the cancel, and is not started again while the connection is open. */
async function cancelledOnce(client) {
  const label = await beginAndCancel(client);
  const cancelled = Date.now();
  let runs = await runsOf(client, label);
  for (; runs.running && Date.now() < cancelled + 1000; runs = await runsOf(client, label)) await sleep(50);
  while (runs.started === 1 && runs.running === 0 && Date.now() < cancelled + STAYS_SECONDS * 1000) {
    await sleep(500);
    runs = await runsOf(client, label);
  }
  const after = `${(Date.now() - cancelled) / 1000} s after the call was cancelled in ${client.revision}`;
  assert.equal(runs.started, 1, `the tool had been started ${runs.started} times ${after}`);
  assert.equal(runs.running, 0, `the tool was running ${after}`);
}

export const STEPS = {
  async connect(client) {
    const { name, revision } = await client.connect();
    assert.equal(name, 'zcp-everything', `server calls itself ${name}`);
    assert.equal(revision, client.revision, `negotiated ${revision}, both sides know ${client.revision}`);
    return `protocol revision ${revision}`;
  },

  async list_pages(client) {
    const pages = [];
    const fetch = async cursor => {
      const page = await client.listTools(cursor);
      pages.push(page.tools.length);
      return page;
    };
    const names = (await every(fetch, 'tools')).map(tool => tool.name);
    assert(pages.length >= 3, `${pages.length} pages of ${pages}`);
    assert.equal(new Set(names).size, names.length, `listed twice: ${names.filter((n, i) => names.indexOf(n) < i)}`);
    const missing = TOOLS.filter(name => !names.includes(name));
    assert.deepEqual(missing, [], `not listed: ${missing}`);
    const remark = await client.checkWhole?.(names);
    return `${names.length} tools on ${pages.length} pages${remark ? `; ${remark}` : ''}`;
  },

  async progress(client) {
    const seen = [];
    const result = await client.call('test_tool_with_progress', {}, {
      onprogress: ({ progress, total }) => seen.push([progress, total]),
    });
    await eventually(() => seen.length >= 3, 1);
    assert(!result.isError, text(result));
    assert.deepEqual(seen, [[0, 100], [50, 100], [100, 100]], `progress was ${JSON.stringify(seen)}`);
    return `${seen.map(([value]) => value)} of 100`;
  },

  async structured(client) {
    const result = await client.call('test_structured_output', { city: 'Oslo' });
    // It came with 2025-06-18; the text says the same to older clients.
    const expected = client.revision >= '2025-06-18' ? FORECAST : undefined;
    assert.deepEqual(result.structuredContent, expected, `structuredContent is ${JSON.stringify(result.structuredContent)}`);
    assert.deepEqual(JSON.parse(text(result)), FORECAST, `text is ${text(result)}`);
  },

  async invalid_output(client) {
    let result;
    try {
      result = await client.call('test_invalid_output', {});
    } catch (error) {
      assert.match(error.message, /schema/i, `an error that does not mention the schema: ${error.message}`);
      return `raised: ${firstLine(error.message)}`;
    }
    assert(result.isError, `passed as a success: ${JSON.stringify(result)}`);
    return `isError: ${firstLine(text(result))}`;
  },

  async invalid_arguments(client) {
    let result;
    try {
      result = await client.call('test_structured_output', {});
    } catch (error) {
      assert.match(error.message, /city/, `an error that does not name \`city\`: ${error.message}`);
      return `raised: ${firstLine(error.message)}`;
    }
    assert(result.isError, `passed as a success: ${JSON.stringify(result)}`);
    assert.match(text(result), /city/, `a text that does not name \`city\`: ${text(result)}`);
    return `isError: ${firstLine(text(result))}`;
  },

  async cancel(client) {
    const label = await beginAndCancel(client);
    const next = client.call('test_simple_text', {});
    assert(await Promise.race([next.then(text), sleep(2000)]), 'no answer within 2 s of the cancel');
    let labels = [];
    for (const end = Date.now() + 5000; !labels.includes(label) && Date.now() < end; await sleep(100)) {
      labels = await cancelledLabels(client);
    }
    assert(labels.includes(label), `the server was never told: cancelled labels are ${labels}`);
  },

  // With each kind of connection this client has: only a session's streams are resumed.
  async stays_cancelled(client) {
    const handshaking = client.handshaking?.();
    if (!handshaking) return await cancelledOnce(client);
    await handshaking.connect();
    await Promise.all([cancelledOnce(client), cancelledOnce(handshaking)]).finally(() => handshaking.close());
    return 'also in a session of 2025-11-25';
  },

  async sampling(client) {
    const result = await client.call('test_sampling', { prompt: 'hi' });
    assert(text(result).includes(SAMPLED.content.text), text(result));
  },

  async elicitation(client) {
    const result = await client.call('test_elicitation', { message: 'who?' });
    assert(text(result).includes(ELICITED.content.username), text(result));
  },

  async roots(client) {
    const result = await client.call('test_list_roots', {});
    assert(text(result).includes(ROOTS.roots[0].uri), text(result));
  },

  async resources(client) {
    const uris = (await every(client.listResources, 'resources')).map(resource => resource.uri);
    assert(uris.includes('test://static-text') && uris.includes('test://static-binary'), `listed: ${uris}`);
    const [fixed] = (await client.read('test://static-text')).contents;
    assert(fixed.uri === 'test://static-text' && fixed.text, JSON.stringify(fixed));
    const [binary] = (await client.read('test://static-binary')).contents;
    assert(Buffer.from(binary.blob, 'base64').length > 0, JSON.stringify(binary));
    const templates = (await every(client.listTemplates, 'resourceTemplates')).map(template => template.uriTemplate);
    assert(templates.includes('test://template/{id}/data'), `listed: ${templates}`);
    const [filled] = (await client.read('test://template/123/data')).contents;
    assert.equal(JSON.parse(filled.text).id, '123', filled.text);
    const missing = await client.read('test://nope').then(
      result => assert.fail(`reading test://nope gave ${JSON.stringify(result)}`),
      error => error,
    );
    assert.equal(missing.code, client.notFound, `reading test://nope gave ${missing.code}: ${missing.message}`);
    return `a missing resource is error ${missing.code}`;
  },

  async resource_updated(client) {
    const watch = await client.watchResource(WATCHED);
    await client.call('test_trigger_resource_update', {});
    const uri = await client.updates.next();
    await watch.close();
    assert.equal(uri, WATCHED, `an update of ${uri}`);
  },

  async prompts(client) {
    const names = (await every(client.listPrompts, 'prompts')).map(prompt => prompt.name);
    assert(names.includes('test_prompt_with_arguments'), `listed: ${names}`);
    const result = await client.getPrompt('test_prompt_with_arguments', { arg1: 'hello', arg2: 'world' });
    const said = result.messages.map(message => message.content.text);
    assert.deepEqual(said, ["Prompt with arguments: arg1='hello', arg2='world'"], `${said}`);
  },

  async completion(client) {
    const { values } = (await client.complete('test_prompt_with_arguments', 'arg1', 'par')).completion;
    assert(values.includes('paris'), `${values}`);
    return JSON.stringify(values);
  },

  async logging(client) {
    client.logs.length = 0;
    await client.callLogged('test_tool_with_logging', 'debug');
    await eventually(() => client.logs.length >= 3, 2);
    assert(client.logs.length >= 3, `${client.logs.length} log messages: ${JSON.stringify(client.logs)}`);
    assert.match(JSON.stringify(client.logs[0]), /Tool execution started/, `the first is ${JSON.stringify(client.logs[0])}`);
    return `${client.logs.length} messages`;
  },

  async list_changed(client) {
    const watch = await client.watchTools();
    await client.call('test_trigger_tool_change', {});
    await client.changes.next();
    await watch.close();
  },

  async close(client) {
    assert(text(await client.call('test_simple_text', {})), 'no text before the close');
    const detail = await client.close();
    await assert.rejects(client.call('test_simple_text', {}), undefined, 'a call after the close was answered');
    return detail;
  },
};

async function perform(client, steps) {
  let connected = true;
  for (const [step, run] of Object.entries(steps)) {
    // What a version of an SDK has no way to do.
    if (client.cannot?.[step]) {
      console.log(JSON.stringify({ step, cannot: client.cannot[step] }));
      continue;
    }
    let line = { step, ok: false, detail: 'not connected' };
    try {
      if (connected) line = { step, ok: true, detail: (await within(STEP_SECONDS, run(client))) ?? '' };
    } catch (error) {
      line.detail = explain(error);
      // A server that introduced itself wrongly can still be talked to.
      connected &&= step !== 'connect' || error instanceof assert.AssertionError;
    }
    console.log(JSON.stringify(line));
  }
}

async function within(seconds, work) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`timed out, at most ${seconds} s`)), seconds * 1000);
  });
  return await Promise.race([work, late]).finally(() => clearTimeout(timer));
}

function explain(error) {
  // What follows the first line of an assertion is node's own rendering of the difference.
  if (error instanceof assert.AssertionError) return firstLine(error.message);
  return `${error.name}: ${error.message}`.slice(0, 600);
}

export async function main(Adapter, steps = STEPS) {
  const [transport, target] = process.argv.slice(2);
  await perform(new Adapter(transport, target), steps);
  process.exit(0);
}
