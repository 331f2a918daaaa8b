// The script with the TypeScript SDK 2.x: no sessions, revision 2026-07-28.

import { Client, SdkHttpError, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';

import { CAPABILITIES, PATIENCE, REFUSALS, WATCHED, elicited, main, sampled } from './script.mjs';

class Adapter {
  cut = new AbortController();

  constructor(name, calls, listening) {
    this.name = name;
    this.addresses = { calls, listener: listening };
    [this.calls, this.listener] = [this.client(), this.client()];
    // The SDK tells only this one of a stream that broke, and leaves the call waiting.
    this.calls.onerror = error => this.broke(error);
  }

  client() {
    const options = { capabilities: CAPABILITIES, versionNegotiation: { mode: 'auto' } };
    const client = new Client({ name: 'replicas', version: '1' }, options);
    client.setRequestHandler('sampling/createMessage', async request => sampled(request));
    client.setRequestHandler('elicitation/create', async request => elicited(request));
    return client;
  }

  broke(error) {
    if (!error.message.startsWith('SSE stream disconnected')) return;
    this.cut.abort(error);
    this.cut = new AbortController();
  }

  async connect() {
    for (const [client, address] of Object.entries(this.addresses)) {
      await this[client].connect(new StreamableHTTPClientTransport(new URL(address)));
    }
    return { server: this.calls.getServerVersion()?.name, revision: this.calls.getNegotiatedProtocolVersion() };
  }

  sessions() {
    return [];
  }

  isLost(error) {
    return (error instanceof SdkHttpError && error.status === 404) || REFUSALS.includes(error.code);
  }

  call(name, args, onprogress) {
    // Only what tells of progress is answered with a stream.
    const signal = onprogress && this.cut.signal;
    return this.calls.callTool({ name, arguments: args }, { onprogress, signal, ...PATIENCE });
  }

  async listen({ listening, heard }) {
    this.listener.setNotificationHandler('notifications/resources/updated', ({ params }) => heard(params.uri));
    const subscription = await this.listener.listen({ resourceSubscriptions: [WATCHED] }, PATIENCE);
    const honoured = subscription.honoredFilter.resourceSubscriptions ?? [];
    if (!honoured.includes(WATCHED)) throw new Error('the server does not honour the filter');
    listening();
    throw new Error(`the subscription ended: ${await subscription.closed}`);
  }
}

await main(Adapter);
