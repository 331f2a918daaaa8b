// The script with the TypeScript SDK 1.x: sessions of 2025-11-25, one for calls and one that listens.

import { setTimeout as sleep } from 'node:timers/promises';

import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import {
  CallToolResultSchema,
  CreateMessageRequestSchema,
  ElicitRequestSchema,
  McpError,
  ResourceUpdatedNotificationSchema,
} from '@modelcontextprotocol/sdk/types.js';

import { CAPABILITIES, PATIENCE, RECONNECT, REFUSALS, WATCHED, elicited, main, sampled } from './script.mjs';

/** One session of the protocol. */
class Session {
  client = new Client({ name: 'replicas', version: '1' }, { capabilities: CAPABILITIES });
  streaming = Promise.withResolvers();

  constructor(url) {
    this.client.setRequestHandler(CreateMessageRequestSchema, async request => sampled(request));
    this.client.setRequestHandler(ElicitRequestSchema, async request => elicited(request));
    const fetch = (to, init) => this.fetch(to, init);
    this.transport = new StreamableHTTPClientTransport(new URL(url), { reconnectionOptions: RECONNECT, fetch });
  }

  async fetch(to, init) {
    const response = await this.deliver(to, init);
    if (init.method === 'GET' && response.ok) this.streaming.resolve();
    return response;
  }

  /** Posts an answer until it has arrived. */
  async deliver(to, init) {
    const isAnswer = init.method === 'POST' && !('method' in JSON.parse(init.body));
    for (;;) {
      const response = await fetch(to, init).catch(error => error);
      const arrived = response instanceof Response && response.status !== 503;
      if (isAnswer && !arrived) await sleep(200);
      else if (response instanceof Response) return response;
      else throw response;
    }
  }
}

class Adapter {
  changed = [
    'its option `fetch`: an answer to a question is posted until it arrives. The SDK posts it once, and the call that ' +
      'asked would wait for it',
  ];

  constructor(name, calls, listening) {
    this.name = name;
    this.calls = new Session(calls);
    this.listener = new Session(listening);
  }

  async connect() {
    await this.listener.client.connect(this.listener.transport);
    await this.calls.client.connect(this.calls.transport);
    return { server: this.calls.client.getServerVersion()?.name, revision: this.calls.transport.protocolVersion };
  }

  sessions() {
    return [this.calls.transport.sessionId, this.listener.transport.sessionId];
  }

  isLost(error) {
    // Where a task is started, the SDK makes words of every error.
    return error.code === 404 || REFUSALS.includes(error.code) || error.message.includes('no such session');
  }

  call(name, args, onprogress) {
    return this.calls.client.callTool({ name, arguments: args }, undefined, { onprogress, ...PATIENCE });
  }

  get tasks() {
    return this.calls.client.experimental.tasks;
  }

  async startTask(name, args) {
    const options = { task: { ttl: 300_000 }, ...PATIENCE };
    const stream = this.tasks.callToolStream({ name, arguments: args }, undefined, options);
    for await (const message of stream) {
      if (message.type === 'taskCreated') return message.task.taskId;
      throw message.error ?? new Error(`instead of a task: ${JSON.stringify(message)}`);
    }
  }

  taskStatus(task) {
    return this.tasks.getTask(task, PATIENCE);
  }

  taskResult(task) {
    return this.tasks.getTaskResult(task, CallToolResultSchema, PATIENCE);
  }

  async taskAnswered(task) {
    await this.taskResult(task).catch(error => {
      if (!(error instanceof McpError)) throw error;
    });
  }

  async listen({ listening, pausing, heard }) {
    const { client, streaming } = this.listener;
    let more = () => {};
    client.setNotificationHandler(ResourceUpdatedNotificationSchema, ({ params }) => {
      heard(params.uri);
      more();
    });
    for (;;) {
      await client.subscribeResource({ uri: WATCHED }, PATIENCE);
      await streaming.promise;
      listening();
      for (let left = 3; left > 0; left--) await new Promise(resolve => (more = resolve));
      // A wish that is taken back and made again may be heard by another replica.
      pausing();
      await client.unsubscribeResource({ uri: WATCHED }, PATIENCE);
    }
  }
}

await main(Adapter);
