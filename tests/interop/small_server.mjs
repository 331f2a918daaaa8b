// A small server, written for whichever TypeScript SDK is beside it: `stdio`, or `http PORT`.

import { randomUUID } from 'node:crypto';
import { createServer } from 'node:http';
import { z } from 'zod';

const kit = await import('@modelcontextprotocol/server').then(second, first);

async function second({ McpServer, createMcpHandler }) {
  const { serveStdio } = await import('@modelcontextprotocol/server/stdio');
  const { toNodeHandler } = await import('@modelcontextprotocol/node');
  const stdio = () => serveStdio(small);
  const http = () => toNodeHandler(createMcpHandler(small));
  return { name: 'ts-v2', McpServer, stdio, http };
}

async function first() {
  const part = name => import(`@modelcontextprotocol/sdk/server/${name}.js`);
  const { McpServer } = await part('mcp');
  const { StdioServerTransport } = await part('stdio');
  const { StreamableHTTPServerTransport } = await part('streamableHttp');
  const stdio = () => small().connect(new StdioServerTransport());
  const http = () => withSessions(StreamableHTTPServerTransport);
  return { name: 'ts-v1', McpServer, stdio, http };
}

function small() {
  const server = new kit.McpServer({ name: `small-${kit.name}`, version: '1' });
  const number = z.number().int();
  const sum = { inputSchema: { a: number, b: number }, outputSchema: { result: number } };
  server.registerTool('add', { description: 'Add two numbers.', ...sum }, ({ a, b }) => ({
    content: [text(`${a + b}`)],
    structuredContent: { result: a + b },
  }));
  server.registerTool('fail', { description: 'Always fails.' }, () => {
    throw new Error('as it should');
  });
  server.registerResource('text', 'small://text', {}, ({ href }) => ({
    contents: [{ uri: href, text: 'some text' }],
  }));
  server.registerPrompt('greet', { argsSchema: { name: z.string() } }, ({ name }) => ({
    messages: [{ role: 'user', content: text(`Greet ${name}.`) }],
  }));
  return server;
}

const text = said => ({ type: 'text', text: said });

// 1.x leaves it to the program to keep a transport for each session.
function withSessions(Transport) {
  const sessions = new Map();
  const open = async () => {
    const onsessioninitialized = id => sessions.set(id, transport);
    const transport = new Transport({ sessionIdGenerator: randomUUID, onsessioninitialized });
    await small().connect(transport);
    return transport;
  };
  return async (request, response) => {
    const id = request.headers['mcp-session-id'];
    const transport = id ? sessions.get(id) : await open();
    if (!transport) return response.writeHead(404).end();
    await transport.handleRequest(request, response);
  };
}

const [wire, port] = process.argv.slice(2);
if (wire === 'stdio') {
  await kit.stdio();
} else {
  const serve = kit.http();
  const route = (request, response) =>
    request.url === '/mcp' ? serve(request, response) : response.writeHead(404).end();
  createServer(route).listen(Number(port), '127.0.0.1');
}
