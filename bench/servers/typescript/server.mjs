// The server of the official TypeScript SDK: `server.mjs stdio`, or `server.mjs http PORT MODE`.
//
// It is the SDK's low-level server, which is its fastest. `servers/build` puts it and tools.json
// where its packages are.

import { randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { NodeStreamableHTTPServerTransport, toNodeHandler } from '@modelcontextprotocol/node';
import { Server, createMcpHandler } from '@modelcontextprotocol/server';
import { serveStdio } from '@modelcontextprotocol/server/stdio';

const USAGE = 'use `stdio`, `http PORT modern` or `http PORT session`';
const LISTED = { tools: JSON.parse(readFileSync(new URL('tools.json', import.meta.url))) };

function benchServer() {
    const capabilities = { tools: { listChanged: true } };
    const server = new Server({ name: 'bench', version: '0' }, { capabilities });
    server.setRequestHandler('tools/list', async () => LISTED);
    server.setRequestHandler('tools/call', async ({ params }) => callTool(params));
    return server;
}

function callTool({ name, arguments: given }) {
    switch (name) {
        case 'echo':
            return textResult(given.text);
        case 'add': {
            const structuredContent = { sum: given.a + given.b };
            return { ...textResult(JSON.stringify(structuredContent)), structuredContent };
        }
        default:
            return textResult('ok');
    }
}

function textResult(text) {
    return { content: [{ type: 'text', text }] };
}

// A server for each request, which is how the SDK serves 2026-07-28.
function modernHandler() {
    const options = { legacy: 'reject', maxSubscriptions: Infinity };
    return toNodeHandler(createMcpHandler(benchServer, options));
}

// A server and a transport for each session, which is how the SDK serves 2025-11-25.
function sessionHandler() {
    const sessions = new Map();
    return async (request, response) => {
        const transport = sessions.get(request.headers['mcp-session-id']);
        if (!transport && request.headers['mcp-session-id']) {
            response.writeHead(404).end();
            return;
        }
        await (transport ?? (await openSession(sessions))).handleRequest(request, response);
    };
}

async function openSession(sessions) {
    const transport = new NodeStreamableHTTPServerTransport({
        sessionIdGenerator: randomUUID,
        enableJsonResponse: true,
        onsessioninitialized: (id) => sessions.set(id, transport),
        onsessionclosed: (id) => sessions.delete(id),
    });
    await benchServer().connect(transport);
    return transport;
}

function serveHttp(port, handler) {
    const server = createServer({ noDelay: true, keepAliveTimeout: 0 }, (request, response) => {
        if (request.url !== '/mcp') {
            response.writeHead(404).end();
            return;
        }
        return handler(request, response);
    });
    server.listen(port, '127.0.0.1');
}

const [wire, port, mode] = process.argv.slice(2);
if (wire === 'stdio') {
    serveStdio(benchServer);
} else if (wire === 'http' && mode === 'modern') {
    serveHttp(Number(port), modernHandler());
} else if (wire === 'http' && mode === 'session') {
    serveHttp(Number(port), sessionHandler());
} else {
    console.error(USAGE);
    process.exitCode = 2;
}
