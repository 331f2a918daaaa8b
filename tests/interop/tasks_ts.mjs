// The steps with tasks of the TypeScript SDK 1.x, in the design of revision 2025-11-25.

import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { createInterface } from 'node:readline/promises';
import { setTimeout as sleep } from 'node:timers/promises';

import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { CallToolResultSchema, ElicitRequestSchema } from '@modelcontextprotocol/sdk/types.js';

const STEP_SECONDS = 40;
const REVISION = '2025-11-25';
const RELATED = 'io.modelcontextprotocol/related-task';

const text = result => result.content.filter(block => block.type === 'text').map(block => block.text).join('\n');
/** The last message of a stream, for people. */
const words = end => end?.error?.message ?? JSON.stringify(end);

class Follower {
  questions = [];
  /** What a list must show: the status of every task that was begun. */
  statuses = {};
  client = new Client({ name: 'tasks', version: '1' }, { capabilities: { elicitation: {} } });
  tasks = this.client.experimental.tasks;

  constructor(kind, target) {
    this.kind = kind;
    this.transport = kind === 'http'
      ? new StreamableHTTPClientTransport(new URL(target))
      : new StdioClientTransport({ command: target, args: ['--stdio'] });
    this.client.setRequestHandler(ElicitRequestSchema, async ({ params }) => {
      this.questions.push(params);
      return { action: 'accept', content: { confirm: true } };
    });
  }

  async call(name, args) {
    return await this.client.callTool({ name, arguments: args });
  }

  /** A new task, which must be at work, and the SDK's stream of what becomes of it. */
  async begin(name, args) {
    // Nothing is said here of tasks: the SDK knows from the list of tools which can be one.
    const stream = this.tasks.callToolStream({ name, arguments: args });
    const { type, task, error } = (await stream.next()).value;
    assert.equal(type, 'taskCreated', `instead of a task there is the ${type} ${error?.message ?? ''}`);
    assert.equal(task.status, 'working', `it begins as ${JSON.stringify(task)}`);
    assert(!(task.taskId in this.statuses), `an id is used twice: ${task.taskId}`);
    this.statuses[task.taskId] = task.status;
    return { id: task.taskId, stream };
  }

  /** The statuses a stream tells of, and what it ends with. */
  async follow({ id, stream }) {
    const seen = [];
    let end;
    for await (const message of stream) {
      assert.equal(end, undefined, `more after the end: ${JSON.stringify(message)}`);
      if (message.type === 'taskStatus') {
        assert.equal(message.task.taskId, id, `told of ${message.task.taskId}`);
        seen.push(message.task.status);
      } else {
        end = message;
      }
    }
    this.statuses[id] = seen.at(-1);
    return { seen, end };
  }

  async status(id) {
    const task = await this.tasks.getTask(id);
    assert.equal(task.taskId, id, `asked for ${id}, told of ${JSON.stringify(task)}`);
    this.statuses[id] = task.status;
    return task.status;
  }

  async result(id) {
    const result = await this.tasks.getTaskResult(id, CallToolResultSchema);
    checkRelated(result, id);
    return result;
  }

  async list() {
    const listed = {};
    let cursor;
    do {
      const page = await this.tasks.listTasks(cursor);
      for (const task of page.tasks) listed[task.taskId] = task.status;
      cursor = page.nextCursor;
    } while (cursor !== undefined);
    return listed;
  }

  async cancelledLabels() {
    return JSON.parse(text(await this.call('test_cancelled_labels', {})));
  }

  async restart() {
    console.log(JSON.stringify({ restart: true }));
    const lines = createInterface({ input: process.stdin });
    const { value } = await lines[Symbol.asyncIterator]().next();
    assert.equal(value, 'restarted', `the server was not restarted: ${value}`);
  }
}

function checkRelated({ _meta }, id) {
  assert.deepEqual(_meta?.[RELATED], { taskId: id }, `not said to be of ${id}: ${JSON.stringify(_meta)}`);
}

/** Asserts that a stream told of a task at work, and then of its result, which is given back. */
function resultOf({ seen, end }) {
  assert.equal(end?.type, 'result', `seen: ${seen}; it ends with ${words(end)}`);
  assert(seen.length > 1 && seen.slice(0, -1).every(status => status === 'working'), `seen: ${seen}`);
  assert.equal(seen.at(-1), 'completed', `seen: ${seen}`);
  return end.result;
}

function checkText(result, said) {
  assert(!result.isError, JSON.stringify(result));
  assert.equal(text(result), said, `the result is ${JSON.stringify(result)}`);
}

const STEPS = {
  async connect(client) {
    // The client tells its transport what was agreed, and keeps no copy to read.
    let revision;
    const told = client.transport.setProtocolVersion?.bind(client.transport);
    client.transport.setProtocolVersion = version => {
      revision = version;
      told?.(version);
    };
    await client.client.connect(client.transport);
    const name = client.client.getServerVersion()?.name;
    assert.equal(name, 'zcp-everything', `server calls itself ${name}`);
    assert.equal(revision, REVISION, `negotiated ${revision}`);
    const offered = client.client.getServerCapabilities().tasks;
    const due = { list: {}, cancel: {}, requests: { tools: { call: {} } } };
    assert.deepEqual(offered, due, `tasks are offered as ${JSON.stringify(offered)}`);
    const { nextCursor } = await client.client.listTools();
    // The SDK forgets one page's tools when it gets the next.
    assert.equal(nextCursor, undefined, 'the tools are on more than one page');
    return `protocol revision ${revision}`;
  },

  async create(client) {
    client.first = await client.begin('slow_compute', { seconds: 2, label: 'first' });
    return client.first.id;
  },

  async poll(client) {
    const followed = await client.follow(client.first);
    client.kept = resultOf(followed);
    return followed.seen.join(', ');
  },

  async result(client) {
    checkText(client.kept, 'first: computed for 2 seconds');
    checkRelated(client.kept, client.first.id);
    assert.deepEqual(await client.result(client.first.id), client.kept, 'a second look shows another result');
    return text(client.kept);
  },

  async question(client) {
    const begun = await client.begin('confirm_delete', { filename: 'a.txt' });
    const { seen, end } = await client.follow(begun);
    assert.equal(seen.at(-1), 'input_required', `it did not ask; seen: ${seen}`);
    assert.equal(client.questions.length, 1, `asked: ${JSON.stringify(client.questions)}`);
    const [asked] = client.questions;
    assert.equal(asked.message, 'Delete a.txt?', JSON.stringify(asked));
    checkRelated(asked, begun.id);
    assert.equal(end?.type, 'result', `it ends with ${words(end)}`);
    checkText(end.result, 'a.txt deleted');
    assert.equal(await client.status(begun.id), 'completed', client.statuses[begun.id]);
    return `${asked.message} ${text(end.result)}`;
  },

  async cancel(client) {
    const label = `tasks-${randomUUID()}`;
    const begun = await client.begin('slow_compute', { seconds: 600, label });
    const answer = await client.tasks.cancelTask(begun.id);
    assert.equal(answer.taskId, begun.id, `the answer is ${JSON.stringify(answer)}`);
    assert.equal(answer.status, 'cancelled', `the answer is ${JSON.stringify(answer)}`);
    const { seen, end } = await client.follow(begun);
    assert.deepEqual(seen, ['cancelled'], `seen: ${seen}`);
    assert.match(end?.error?.message ?? '', /was cancelled/, `it ends with ${words(end)}`);
    let labels = [];
    for (const last = Date.now() + 5000; !labels.includes(label) && Date.now() < last; await sleep(100)) {
      labels = await client.cancelledLabels();
    }
    assert(labels.includes(label), `it was not stopped: cancelled labels are ${labels}`);
    const again = await client.tasks.cancelTask(begun.id).then(
      task => assert.fail(`a second cancel is answered with ${JSON.stringify(task)}`),
      error => error,
    );
    assert.equal(again.code, -32602, `a second cancel is refused with ${again.code}: ${again.message}`);
    return `a second time it is refused: ${again.message}`;
  },

  async failure(client) {
    const begun = await client.begin('failing_job', {});
    const { seen, end } = await client.follow(begun);
    assert.equal(seen.at(-1), 'failed', `seen: ${seen}`);
    assert.match(end?.error?.message ?? '', /failed/, `it ends with ${words(end)}`);
    // The SDK's stream ends at a failure without asking what it was.
    const result = await client.result(begun.id);
    assert.equal(result.isError, true, JSON.stringify(result));
    assert.equal(text(result), 'the job failed, as it always does', JSON.stringify(result));
    return text(result);
  },

  async listed(client) {
    const listed = await client.list();
    const both = `listed: ${JSON.stringify(listed)}; begun: ${JSON.stringify(client.statuses)}`;
    assert.deepEqual(listed, client.statuses, both);
    return Object.values(listed).join(', ');
  },
};

const AFTER_RESTART = {
  async restart(client) {
    const begun = await client.begin('slow_compute', { seconds: 3, label: 'again' });
    assert.equal(await client.status(begun.id), 'working', client.statuses[begun.id]);
    await client.restart();
    const followed = await client.follow(begun);
    checkText(resultOf(followed), 'again: computed for 3 seconds');
    return `${text(followed.end.result)}, after ${followed.seen.length} looks`;
  },

  async kept(client) {
    const { id } = client.first;
    assert.equal(await client.status(id), 'completed', client.statuses[id]);
    const result = await client.result(id);
    assert.deepEqual(result, client.kept, `it was ${JSON.stringify(client.kept)}, and is ${JSON.stringify(result)}`);
    return text(result);
  },

  still_listed: STEPS.listed,
};

async function perform(client) {
  const steps = client.kind === 'http' ? { ...STEPS, ...AFTER_RESTART } : STEPS;
  let failed = 0;
  for (const [step, run] of Object.entries(steps)) {
    let line;
    try {
      line = { step, ok: true, detail: await within(STEP_SECONDS, run(client)) };
    } catch (error) {
      line = { step, ok: false, detail: explain(error) };
      failed += 1;
    }
    console.log(JSON.stringify(line));
    if (step === 'connect' && !line.ok) break;
  }
  await client.client.close();
  return failed === 0 ? 0 : 1;
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
  if (error instanceof assert.AssertionError) return error.message.trim().split('\n')[0].slice(0, 600);
  return `${error.name}: ${error.message}`.slice(0, 600);
}

const [transport, target] = process.argv.slice(2);
process.exit(await perform(new Follower(transport, target)));
