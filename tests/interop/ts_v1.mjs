// The steps with the TypeScript SDK 1.x, which speaks the handshake revisions: in its newest version, and in
// older ones that each speak the revision of their time.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { SSEClientTransport } from '@modelcontextprotocol/sdk/client/sse.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { WebSocketClientTransport } from '@modelcontextprotocol/sdk/client/websocket.js';
import * as types from '@modelcontextprotocol/sdk/types.js';

import { CAPABILITIES, ELICITED, Inbox, ROOTS, SAMPLED, Witness, main } from './steps.mjs';

const PACKAGE = new URL('node_modules/@modelcontextprotocol/sdk/package.json', import.meta.url);
const VERSION = JSON.parse(readFileSync(PACKAGE)).version;
const REVISIONS = { '1.10.2': '2024-11-05', '1.12.3': '2025-03-26', '1.13.0': '2025-06-18' };
const HAS_FORMS = 'ElicitRequestSchema' in types;

export class Adapter {
  revision = REVISIONS[VERSION] ?? '2025-11-25';
  cannot = HAS_FORMS ? {} : { elicitation: 'forms came with 2025-06-18' };
  notFound = -32002;
  logs = [];
  updates = new Inbox();
  changes = new Inbox();

  constructor(kind, target, capabilities = CAPABILITIES) {
    const { elicitation, ...others } = capabilities;
    const known = HAS_FORMS ? capabilities : others;
    this.client = new Client({ name: 'interop', version: '1' }, { capabilities: known });
    this.kind = kind;
    this.target = target;
    this.witness = new Witness(target);
    this.client.setRequestHandler(types.CreateMessageRequestSchema, async () => SAMPLED);
    if (HAS_FORMS) this.client.setRequestHandler(types.ElicitRequestSchema, async () => ELICITED);
    this.client.setRequestHandler(types.ListRootsRequestSchema, async () => ROOTS);
    this.client.setNotificationHandler(types.LoggingMessageNotificationSchema, ({ params }) => void this.logs.push(params.data));
    this.client.setNotificationHandler(types.ResourceUpdatedNotificationSchema, ({ params }) => this.updates.push(params.uri));
    this.client.setNotificationHandler(types.ToolListChangedNotificationSchema, () => this.changes.push());
  }

  async connect() {
    this.transport = this.open();
    // The client keeps no copy of what was agreed: it is read on its way in.
    let revision;
    const start = this.transport.start.bind(this.transport);
    this.transport.start = async () => {
      const hear = this.transport.onmessage;
      this.transport.onmessage = (message, extra) => {
        revision ??= message.result?.protocolVersion;
        hear(message, extra);
      };
      await start();
    };
    await this.client.connect(this.transport);
    return { name: this.client.getServerVersion()?.name, revision };
  }

  open() {
    if (this.kind === 'http') return new StreamableHTTPClientTransport(new URL(this.target));
    if (this.kind === 'sse') return new SSEClientTransport(new URL(this.target));
    if (this.kind === 'ws') return new WebSocketClientTransport(new URL(this.target));
    return new StdioClientTransport({ command: this.witness.command, args: this.witness.args });
  }

  listTools = cursor => this.client.listTools({ cursor });
  listResources = cursor => this.client.listResources({ cursor });
  listTemplates = cursor => this.client.listResourceTemplates({ cursor });
  listPrompts = cursor => this.client.listPrompts({ cursor });
  read = uri => this.client.readResource({ uri });
  getPrompt = (name, args) => this.client.getPrompt({ name, arguments: args });

  call(name, args, options) {
    return this.client.callTool({ name, arguments: args }, undefined, options);
  }

  async callLogged(name, level) {
    await this.client.setLoggingLevel(level);
    return await this.call(name, {});
  }

  complete(prompt, argument, value) {
    const ref = { type: 'ref/prompt', name: prompt };
    return this.client.complete({ ref, argument: { name: argument, value } });
  }

  async watchResource(uri) {
    await this.client.subscribeResource({ uri });
    return { close: () => this.client.unsubscribeResource({ uri }) };
  }

  async watchTools() {
    return { close: async () => {} };
  }

  async close() {
    if (this.kind === 'stdio' && VERSION in REVISIONS) {
      await this.client.close();
      return 'this version of the SDK kills its server';
    }
    if (this.kind === 'stdio') return await this.witness.sees(() => this.client.close());
    const session = this.transport.sessionId;
    await this.transport.terminateSession?.();
    await this.client.close();
    if (!session) return;
    const { status } = await this.askIn(session);
    assert.equal(status, 404, `the session was closed and still answers with ${status}`);
    return 'the session is gone';
  }

  askIn(session) {
    return fetch(this.target, {
      method: 'POST',
      headers: {
        accept: 'application/json, text/event-stream',
        'content-type': 'application/json',
        'mcp-session-id': session,
        'mcp-protocol-version': this.revision,
      },
      body: '{"jsonrpc":"2.0","id":"after","method":"ping"}',
    });
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await main(Adapter);
