// The steps with the TypeScript SDK 2.x, told to discover what the server speaks.

import assert from 'node:assert/strict';
import { fileURLToPath } from 'node:url';

import { Client, LOG_LEVEL_META_KEY, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';

import { CAPABILITIES, ELICITED, Inbox, ROOTS, SAMPLED, Witness, main } from './steps.mjs';

export class Adapter {
  revision = '2026-07-28';
  notFound = -32602;
  logs = [];
  updates = new Inbox();
  changes = new Inbox();

  constructor(kind, target, { mode = 'auto', capabilities = CAPABILITIES } = {}) {
    this.client = new Client(
      { name: 'interop', version: '1' },
      { capabilities, versionNegotiation: { mode } },
    );
    this.kind = kind;
    this.target = target;
    this.witness = new Witness(target);
    this.client.setRequestHandler('sampling/createMessage', async () => SAMPLED);
    this.client.setRequestHandler('elicitation/create', async () => ELICITED);
    this.client.setRequestHandler('roots/list', async () => ROOTS);
    this.client.setNotificationHandler('notifications/message', ({ params }) => void this.logs.push(params.data));
    this.client.setNotificationHandler('notifications/resources/updated', ({ params }) => this.updates.push(params.uri));
    this.client.setNotificationHandler('notifications/tools/list_changed', () => this.changes.push());
  }

  /** The same client in a session: the revisions before 2026-07-28. */
  handshaking() {
    return Object.assign(new Adapter(this.kind, this.target, { mode: 'legacy' }), { revision: '2025-11-25' });
  }

  async connect() {
    const transport =
      this.kind === 'http'
        ? new StreamableHTTPClientTransport(new URL(this.target))
        : new StdioClientTransport({ command: this.witness.command, args: this.witness.args });
    await this.client.connect(transport);
    return { name: this.client.getServerVersion()?.name, revision: this.client.getNegotiatedProtocolVersion() };
  }

  // `listTools()` without a cursor walks all pages by itself; a bare request gives the first alone.
  listTools = cursor => (cursor ? this.client.listTools({ cursor }) : this.client.request({ method: 'tools/list' }));

  async checkWhole(names) {
    const whole = (await this.client.listTools()).tools.map(tool => tool.name);
    assert.deepEqual(whole, names, `listTools() gathers ${whole.length} tools`);
    return 'listTools() gathers the same by itself';
  }

  listResources = cursor => this.client.listResources({ cursor });
  listTemplates = cursor => this.client.listResourceTemplates({ cursor });
  listPrompts = cursor => this.client.listPrompts({ cursor });
  read = uri => this.client.readResource({ uri });
  getPrompt = (name, args) => this.client.getPrompt({ name, arguments: args });

  call(name, args, options) {
    return this.client.callTool({ name, arguments: args }, options);
  }

  callLogged(name, level) {
    return this.client.callTool({ name, arguments: {}, _meta: { [LOG_LEVEL_META_KEY]: level } });
  }

  complete(prompt, argument, value) {
    const ref = { type: 'ref/prompt', name: prompt };
    return this.client.complete({ ref, argument: { name: argument, value } });
  }

  async watchResource(uri) {
    const subscription = await this.client.listen({ resourceSubscriptions: [uri] });
    assert.deepEqual(subscription.honoredFilter.resourceSubscriptions, [uri], 'the server does not honour the filter');
    return subscription;
  }

  async watchTools() {
    const subscription = await this.client.listen({ toolsListChanged: true });
    assert(subscription.honoredFilter.toolsListChanged, 'the server does not honour the filter');
    return subscription;
  }

  async close() {
    if (this.kind === 'stdio') return await this.witness.sees(() => this.client.close());
    await this.client.close();
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await main(Adapter);
