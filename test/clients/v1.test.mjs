// @modelcontextprotocol/sdk, the line that speaks the legacy era.
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { SSEClientTransport } from '@modelcontextprotocol/sdk/client/sse.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';

import { environment, program } from './busbar.mjs';
import { watched } from './listening.mjs';
import { scenario } from './scenario.mjs';

function connectWith(makeTransport) {
  return async (busbar, { onToolsChanged }) => {
    const client = new Client(
      { name: 'busbar-clients', version: '1.0.0' },
      { listChanged: { tools: { autoRefresh: false, debounceMs: 0, onChanged: onToolsChanged } } },
    );
    const { transport, listens } = makeTransport(busbar);
    await client.connect(transport);
    return {
      client,
      listens,
      version: () => negotiated(transport),
      call: (params, options) => client.callTool(params, undefined, options),
    };
  };
}

// The transport is told the version that was agreed on.
const agreed = new WeakMap();
const negotiated = transport => transport.protocolVersion ?? agreed.get(transport);
const noting = transport => {
  const tell = transport.setProtocolVersion?.bind(transport);
  transport.setProtocolVersion = version => {
    agreed.set(transport, version);
    tell?.(version);
  };
  return { transport, listens: Promise.resolve() };
};

scenario('sdk 1.x over Streamable HTTP', {
  version: '2025-11-25',
  connect: connectWith(busbar => {
    const { fetch, listens } = watched();
    return { transport: new StreamableHTTPClientTransport(busbar.mcp, { fetch }), listens };
  }),
});

scenario('sdk 1.x over stdio', {
  version: '2025-11-25',
  connect: connectWith(busbar =>
    noting(new StdioClientTransport({ command: program('busbar'), args: ['stdio', ...busbar.as('edge')], env: environment })),
  ),
});

scenario('sdk 1.x over HTTP with SSE', {
  version: '2025-11-25',
  connect: connectWith(busbar => noting(new SSEClientTransport(new URL('/sse', busbar.mcp)))),
});
