// The steps with the TypeScript SDK 1.x, which speaks the handshake revisions.

import assert from 'node:assert/strict';

import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { WebSocketClientTransport } from '@modelcontextprotocol/sdk/client/websocket.js';
import {
  CreateMessageRequestSchema,
  ElicitRequestSchema,
  ListRootsRequestSchema,
  LoggingMessageNotificationSchema,
  ResourceUpdatedNotificationSchema,
  ToolListChangedNotificationSchema,
} from '@modelcontextprotocol/sdk/types.js';

import { CAPABILITIES, ELICITED, Inbox, ROOTS, SAMPLED, Witness, main } from './steps.mjs';

class Adapter {
  revision = '2025-11-25';
  notFound = -32002;
  logs = [];
  updates = new Inbox();
  changes = new Inbox();
  client = new Client({ name: 'interop', version: '1' }, { capabilities: CAPABILITIES });

  constructor(kind, target) {
    this.kind = kind;
    this.target = target;
    this.witness = new Witness(target);
    this.client.setRequestHandler(CreateMessageRequestSchema, async () => SAMPLED);
    this.client.setRequestHandler(ElicitRequestSchema, async () => ELICITED);
    this.client.setRequestHandler(ListRootsRequestSchema, async () => ROOTS);
    this.client.setNotificationHandler(LoggingMessageNotificationSchema, ({ params }) => void this.logs.push(params.data));
    this.client.setNotificationHandler(ResourceUpdatedNotificationSchema, ({ params }) => this.updates.push(params.uri));
    this.client.setNotificationHandler(ToolListChangedNotificationSchema, () => this.changes.push());
  }

  async connect() {
    this.transport = this.open();
    // The client tells its transport what was agreed, and keeps no copy to read.
    let revision;
    const told = this.transport.setProtocolVersion?.bind(this.transport);
    this.transport.setProtocolVersion = version => {
      revision = version;
      told?.(version);
    };
    await this.client.connect(this.transport);
    return { name: this.client.getServerVersion()?.name, revision };
  }

  open() {
    if (this.kind === 'http') return new StreamableHTTPClientTransport(new URL(this.target));
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

await main(Adapter);
