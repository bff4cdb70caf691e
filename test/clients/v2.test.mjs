// @modelcontextprotocol/client, the line that speaks 2026-07-28 too.
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';

import { again, directory, environment, program } from './busbar.mjs';
import { watched } from './listening.mjs';
import { scenario } from './scenario.mjs';

const info = { name: 'busbar-clients', version: '1.0.0' };

const http = busbar => {
  const { fetch, listens } = watched();
  return { transport: new StreamableHTTPClientTransport(busbar.mcp, { fetch }), listens };
};

const stdio = busbar => ({
  transport: new StdioClientTransport({ command: program('busbar'), args: ['stdio', ...busbar.as('edge')], env: environment }),
  listens: Promise.resolve(),
});

const connectWith = (makeTransport, mode) => async (busbar, { onToolsChanged }) => {
  const client = new Client(info, {
    versionNegotiation: { mode },
    listChanged: { tools: { autoRefresh: false, debounceMs: 0, onChanged: onToolsChanged } },
  });
  const { transport, listens } = makeTransport(busbar);
  await client.connect(transport);
  return {
    client,
    listens,
    version: () => client.getNegotiatedProtocolVersion(),
    call: (params, options) => client.callTool(params, options),
  };
};

for (const [transport, make] of [['Streamable HTTP', http], ['stdio', stdio]]) {
  scenario(`client 2.x over ${transport}, pinned`, { version: '2026-07-28', modern: true, connect: connectWith(make, { pin: '2026-07-28' }) });
  scenario(`client 2.x over ${transport}, finding out`, { version: '2026-07-28', modern: true, connect: connectWith(make, 'auto') });
  scenario(`client 2.x over ${transport}, legacy`, { version: '2025-11-25', connect: connectWith(make, 'legacy') });
}

// What a desktop client's configuration starts.
test('busbar stdio with a data directory of its own', async () => {
  const { data, remove } = directory();
  try {
    const client = new Client(info, { versionNegotiation: { mode: { pin: '2026-07-28' } } });
    await client.connect(new StdioClientTransport({ command: program('busbar'), args: ['stdio', '--data-dir', data], env: environment }));
    const result = await again(() => client.callTool({ name: 'analyzeText', arguments: { text: 'One bus. Many circuits.' } }));
    assert.equal(result.structuredContent.statistics.sentenceCount, 2);
    await client.close();
  } finally {
    remove();
  }
});
