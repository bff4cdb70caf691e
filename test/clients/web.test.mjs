// Clients of GraphQL and of WebSockets, at /graphql and /ws.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';

import { GraphQLClient, gql } from 'graphql-request';
import { createClient } from 'graphql-ws';
import { buildClientSchema, getIntrospectionQuery, validateSchema } from 'graphql';
import { WebSocket } from 'ws';

import { eventually, latch, start, startDev } from './busbar.mjs';

describe('web doors', () => {
  let busbar, service, graphql;
  const at = (path, scheme = 'http') => Object.assign(new URL(path, busbar.mcp), { protocol: `${scheme}:` }).href;
  before(async () => {
    busbar = await startDev();
    service = start('testservice', ...busbar.as('developer'));
    graphql = new GraphQLClient(at('/graphql'));
    await eventually('the test service is there', async () => {
      const { getTools } = await graphql.request('{ getTools { name } }');
      return getTools.some(tool => tool.name === 'slow');
    });
  });
  after(async () => {
    await service?.stop();
    assert.equal(await busbar?.stop(), 0, 'busbar dev ends in good order');
  });

  describe('graphql-request', () => {
    test('learns a schema that is valid', async () => {
      const schema = buildClientSchema(await graphql.request(getIntrospectionQuery()));
      assert.deepEqual(validateSchema(schema), []);
      assert.ok(schema.getMutationType().getFields().executeTools);
    });

    test('calls a tool with variables', async () => {
      const call = gql`
        mutation Call($input: ToolInput!) {
          executeTool(input: $input) {
            structured_content
            is_error
          }
        }
      `;
      const parameters = { operation: 'statistics', text: 'Два слова.', stat_options: ['words'] };
      const { executeTool } = await graphql.request(call, { input: { name: 'text_processor', parameters } });
      assert.deepEqual(executeTool, { structured_content: { operation: 'statistics', words: 2 }, is_error: false });
    });

    test('learns why a call failed', async () => {
      const error = await graphql.request('mutation { executeTool(input: {name: "no_such_tool"}) { is_error } }').then(
        data => assert.fail(`succeeded: ${JSON.stringify(data)}`),
        error => error,
      );
      assert.deepEqual(error.response.errors[0].extensions, {
        code: 'NOT_FOUND', reason: 'unknown_tool', executed: 'no', next: 'getTools lists the tools',
      });
    });
  });

  describe('graphql-ws', () => {
    test('follows a call', async () => {
      const client = createClient({ url: at('/graphql', 'ws'), webSocketImpl: WebSocket });
      const events = [];
      const query = `subscription { executeTool(input: {name: "slow", parameters: {key: "followed", steps: 3, ms: 60}}) {
        progress { progress total } result { is_error } } }`;
      for await (const event of client.iterate({ query })) events.push(event.data.executeTool);
      assert.deepEqual(events.at(-1), { progress: null, result: { is_error: false } });
      assert.deepEqual(
        events.slice(0, -1).map(event => event.progress.progress),
        [1, 2, 3],
      );
      await client.dispose();
    });

    test('gives a call up', async () => {
      const client = createClient({ url: at('/graphql', 'ws'), webSocketImpl: WebSocket });
      const query = 'subscription { executeTool(input: {name: "slow", parameters: {key: "given up", steps: 1000, ms: 60000}}) { progress { progress } } }';
      for await (const event of client.iterate({ query })) {
        assert.equal(event.data.executeTool.progress.progress, 1);
        break;
      }
      await client.dispose();
    });
  });

  for (const [name, Socket] of Object.entries({ ws: WebSocket, 'the built-in client': globalThis.WebSocket })) {
    test(`${name} calls many tools over one connection`, async () => {
      const socket = new Socket(at('/ws', 'ws'));
      const answers = new Map();
      const all = latch();
      const n = 20;
      socket.onmessage = ({ data }) => {
        const message = JSON.parse(data);
        if (message.type === 'progress') return;
        answers.set(message.id, message);
        if (answers.size === n) all.open();
      };
      await new Promise((resolve, fail) => Object.assign(socket, { onopen: resolve, onerror: fail }));
      for (let i = 0; i < n; i++) {
        socket.send(JSON.stringify({ type: 'tool_request', id: `${i}`, data: { name: 'slow', parameters: { key: `${name} ${i}`, ms: 20 } } }));
      }
      await all.promise;
      for (const answer of answers.values()) assert.equal(answer.type, 'tool_response', JSON.stringify(answer));
      const closed = new Promise(resolve => (socket.onclose = resolve));
      socket.close(1000);
      assert.equal((await closed).code, 1000);
    });
  }
});
