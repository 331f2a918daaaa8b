// What every TypeScript client does over and over while replicas die, and what must come of it.
//
// A program brings an adapter with the methods called here. Everything that happens is one JSON line
// on standard output; when standard input ends, the client finishes what it does and says so.

import { setTimeout as sleep } from 'node:timers/promises';

const CALL_SECONDS = 30;
const TASK_SECONDS = 60;
const PAUSE_AFTER_FAILURE = 300;
const SIMPLE = 'This is a simple text response for testing.';
const TASK_DIED = 'stopped before it was done';

/** What a server says of a request it does not understand: a kill is no reason for that. */
export const REFUSALS = [-32700, -32600, -32601, -32602];
export const WATCHED = 'test://watched-resource';
export const CAPABILITIES = { sampling: {}, elicitation: {} };
/** A call's own limit, beyond the one it is held to here. */
export const PATIENCE = { timeout: (CALL_SECONDS + 5) * 1000 };
/** Streams that break are opened again however often that is. */
export const RECONNECT = {
  initialReconnectionDelay: 300, reconnectionDelayGrowFactor: 1, maxReconnectionDelay: 300, maxRetries: 1000,
};

/** Something that must not happen, whatever is killed. */
class Lost extends Error {}

const now = () => Date.now() / 1000;
const tell = (event, more = {}) => console.log(JSON.stringify({ event, ...more }));

const sampledWords = prompt => `a model's words about ${prompt}`;
/** What a user answers, so that the answer to one question fits no other. */
const person = message => ({ username: message, email: `${message}@example.com` });

/** Answers a request for a model's words. */
export function sampled({ params }) {
  const [prompt] = [params.messages[0].content].flat();
  return { role: 'assistant', model: 'replicas', content: { type: 'text', text: sampledWords(prompt.text) } };
}

/** Fills in a form. */
export function elicited({ params }) {
  const confirms = 'confirm' in params.requestedSchema.properties;
  return { action: 'accept', content: confirms ? { confirm: true } : person(params.message) };
}

class Script {
  numbers = 0;
  stopping = false;

  constructor(client) {
    this.client = client;
  }

  async perform() {
    const { server, revision } = await this.client.connect();
    tell('connected', { server, revision, sessions: this.client.sessions(), changed: this.client.changed ?? [] });
    const loops = [
      this.keepOn('calls', this.call, 50),
      this.keepOn('progress', this.progress, 100),
      this.keepOn('sampling', this.sampling, 100),
      this.keepOn('elicitation', this.elicitation, 100),
    ];
    if (this.client.startTask) loops.push(this.keepOn('tasks', this.task, 100));
    this.listen();
    await Promise.all([this.waitForEnd(), ...loops]);
    tell('done', { sessions: this.client.sessions() });
  }

  async waitForEnd() {
    for await (const _ of process.stdin);
    this.stopping = true;
  }

  async keepOn(kind, act, pause) {
    while (!this.stopping) {
      const label = `${this.client.name}-${++this.numbers}`;
      const began = now();
      try {
        await act.call(this, kind, label);
        tell('ok', { kind });
      } catch (error) {
        if (!(error instanceof Lost)) throw error;
        tell('lost', { kind, began, ended: now(), detail: error.message });
      }
      await sleep(pause);
    }
  }

  /** Makes a call until it is answered. That it fails is told; that it hangs is a loss. */
  async again(kind, what, call) {
    let detail, began;
    for (const end = now() + CALL_SECONDS; (began = now()) < end; await sleep(PAUSE_AFTER_FAILURE)) {
      try {
        return await within(CALL_SECONDS, what, call());
      } catch (error) {
        if (error instanceof Lost) throw error;
        detail = `${what}: ${explain(error)}`;
        if (this.client.isLost(error)) throw new Lost(detail);
        tell('failed', { kind, began, ended: now(), detail });
      }
    }
    throw new Lost(`${detail}, again and again for ${CALL_SECONDS} s`);
  }

  async tool(kind, name, args, onprogress) {
    const what = `tools/call ${name} ${JSON.stringify(args)}`;
    return text(what, await this.again(kind, what, () => this.client.call(name, args, onprogress)));
  }

  async call(kind, label) {
    expect(await this.tool(kind, 'test_simple_text', {}), SIMPLE);
    expect(await this.tool(kind, 'greet', { name: label }), `Hello, ${label}!`);
  }

  async progress(kind, label) {
    const seen = [];
    const heard = ({ progress, total, message }) => void seen.push({ progress, total, message });
    const said = await this.tool(kind, 'slow_compute', { seconds: 0.5, label }, heard);
    expect(said, `${label}: computed for 0.5 seconds`);
    // A call that was made again has told of itself more than once.
    const own = seen.filter(({ total, message }) => total === 5 && message === label);
    if (!own.length || own.length < seen.length) {
      throw new Lost(`slow_compute ${label}: its progress was ${JSON.stringify(seen)}`);
    }
  }

  async sampling(kind, label) {
    expect(await this.tool(kind, 'test_sampling', { prompt: label }), `LLM response: ${sampledWords(label)}`);
  }

  async elicitation(kind, label) {
    const said = await this.tool(kind, 'test_elicitation', { message: label });
    expect(said, `User response: action=accept, content=${JSON.stringify(person(label))}`);
  }

  async task(kind, label) {
    await this.finish(kind, 'slow_compute', { seconds: 0.5, label }, `${label}: computed for 0.5 seconds`);
    await this.finish(kind, 'confirm_delete', { filename: label }, `${label} deleted`);
  }

  /** A task from its start to its result, which outlives the replicas it is on. */
  async finish(kind, tool, args, expected) {
    const what = `task ${tool} ${JSON.stringify(args)}`;
    let task;
    for (;;) {
      const began = now();
      task = await this.again(kind, `${what}: start`, () => this.client.startTask(tool, args));
      const why = await this.outcome(kind, `${what} ${task}`, task);
      if (!why) break;
      // Only this one may not be done twice, and may say so instead.
      if (tool !== 'confirm_delete' || !why.includes(TASK_DIED)) throw new Lost(`${what} ${task}: it failed: ${why}`);
      tell('failed', { kind, began, ended: now(), detail: `${what}: ${why}` });
    }
    expect(text(what, await this.again(kind, `${what}: result`, () => this.client.taskResult(task))), expected);
  }

  /** Waits for the end of a task; gives why it failed, if it did. */
  async outcome(kind, what, task) {
    for (const end = now() + TASK_SECONDS; now() < end; await sleep(200)) {
      const { status, statusMessage } = await this.again(kind, `${what}: status`, () => this.client.taskStatus(task));
      if (status === 'completed') return undefined;
      if (status === 'failed' || status === 'cancelled') return `${status}: ${statusMessage}`;
      // Its question is asked where its result is waited for.
      if (status === 'input_required') await this.again(kind, `${what}: answer`, () => this.client.taskAnswered(task));
    }
    throw new Lost(`${what}: no result in ${TASK_SECONDS} s`);
  }

  /** Listens all the time; tells when it does, and when it was cut off. */
  async listen() {
    const told = {
      listening: () => tell('listening'),
      pausing: () => tell('pausing'),
      heard: uri => uri === WATCHED && tell('heard'),
    };
    for (;;) {
      const began = now();
      try {
        await this.client.listen(told);
      } catch (error) {
        tell('deaf');
        const detail = `listening: ${explain(error)}`;
        tell(this.client.isLost(error) ? 'lost' : 'failed', { kind: 'subscriptions', began, ended: now(), detail });
      }
      await sleep(PAUSE_AFTER_FAILURE);
    }
  }
}

function expect(said, expected) {
  if (said !== expected) throw new Lost(`expected \`${expected}\`, and \`${said}\` came back`);
}

function text(what, result) {
  if (result.isError) throw new Lost(`${what}: ${JSON.stringify(result)}`);
  return result.content.map(block => block.text ?? '').join('\n');
}

async function within(seconds, what, work) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Lost(`${what}: no answer and no error in ${seconds} s`)), seconds * 1000);
  });
  return await Promise.race([work, late]).finally(() => clearTimeout(timer));
}

function explain(error) {
  const cause = error.cause ? ` (${error.cause.message})` : '';
  return `${error.name}: ${error.message}${cause}`.slice(0, 400);
}

export async function main(Adapter) {
  const [name, calls, listening] = process.argv.slice(2);
  await new Script(new Adapter(name, calls, listening)).perform();
  process.exit(0);
}
