// Clients of GraphQL and of WebSockets, at /graphql and /ws.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';

import { GraphQLClient, gql } from 'graphql-request';
import { createClient } from 'graphql-ws';
import { buildClientSchema, getIntrospectionQuery, validateSchema } from 'graphql';
import { WebSocket } from 'ws';

import { again, eventually, start, startDev, told, within } from './busbar.mjs';

describe('web doors', () => {
  let busbar, service, graphql;
  const at = (path, scheme = 'http') => Object.assign(new URL(path, busbar.mcp), { protocol: `${scheme}:` }).href;
  // An error of an answer is thrown.
  const request = (...query) => again(() => graphql.request(...query));
  before(told(async () => {
    busbar = await startDev();
    service = start('testservice', ...busbar.as('developer'));
    graphql = new GraphQLClient(at('/graphql'));
    await eventually('the test service is there', async () => {
      const { getTools } = await request('{ getTools { name } }');
      return getTools.some(tool => tool.name === 'slow');
    });
  }));
  after(async () => {
    await service?.stop();
    assert.equal(await busbar?.stop(), 0, 'busbar dev ends in good order');
  });

  describe('graphql-request', () => {
    test('learns a schema that is valid', async () => {
      const schema = buildClientSchema(await request(getIntrospectionQuery()));
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
      const { executeTool } = await request(call, { input: { name: 'text_processor', parameters } });
      assert.deepEqual(executeTool, { structured_content: { operation: 'statistics', words: 2 }, is_error: false });
    });

    test('learns why a call failed', async () => {
      const error = await request('mutation { executeTool(input: {name: "no_such_tool"}) { is_error } }').then(
        data => assert.fail(`succeeded: ${JSON.stringify(data)}`),
        error => error,
      );
      assert.deepEqual(error.response.errors[0].extensions, {
        code: 'NOT_FOUND', reason: 'unknown_tool', executed: 'no', next: 'getTools lists the tools',
      });
    });
  });

  describe('graphql-ws', () => {
    /** events are what a subscription is told, until enough says so; the errors among them are thrown. */
    const events = (query, enough) =>
      again(async () => {
        const client = createClient({ url: at('/graphql', 'ws'), webSocketImpl: WebSocket });
        try {
          const events = [];
          for await (const { data, errors } of client.iterate({ query })) {
            if (errors) throw new Error(JSON.stringify(errors));
            events.push(data.executeTool);
            if (enough?.(events)) break;
          }
          return events;
        } finally {
          await client.dispose();
        }
      });

    test('follows a call', async () => {
      const seen = await events(`subscription { executeTool(input: {name: "slow", parameters: {key: "followed", steps: 3, ms: 60}}) {
        progress { progress total } result { is_error } } }`);
      assert.deepEqual(seen.at(-1), { progress: null, result: { is_error: false } });
      assert.deepEqual(
        seen.slice(0, -1).map(event => event.progress.progress),
        [1, 2, 3],
      );
    });

    test('gives a call up', async () => {
      const [event] = await events(
        'subscription { executeTool(input: {name: "slow", parameters: {key: "given up", steps: 1000, ms: 60000}}) { progress { progress } } }',
        events => events.length === 1,
      );
      assert.equal(event.progress.progress, 1);
    });
  });

  for (const [name, Socket] of Object.entries({ ws: WebSocket, 'the built-in client': globalThis.WebSocket })) {
    test(`${name} calls many tools over one connection`, async () => {
      const socket = new Socket(at('/ws', 'ws'));
      const waiting = new Map();
      socket.onmessage = ({ data }) => {
        const message = JSON.parse(data);
        if (message.type !== 'progress') waiting.get(message.id)(message);
      };
      await new Promise((resolve, fail) => Object.assign(socket, { onopen: resolve, onerror: fail }));
      let ids = 0;
      const call = async key => {
        const id = `${ids++}`;
        const answered = new Promise(resolve => waiting.set(id, resolve));
        socket.send(JSON.stringify({ type: 'tool_request', id, data: { name: 'slow', parameters: { key, ms: 20 } } }));
        const answer = await within(`an answer to ${id}`, answered);
        if (answer.type !== 'tool_response') throw new Error(JSON.stringify(answer));
      };
      await Promise.all(Array.from({ length: 20 }, (_, i) => again(() => call(`${name} ${i}`))));
      const closed = new Promise(resolve => (socket.onclose = resolve));
      socket.close(1000);
      assert.equal((await closed).code, 1000);
    });
  }
});
