// What every client has to manage, of whatever SDK, era and transport.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';

import { again, eventually, start, startDev, told, within } from './busbar.mjs';

/**
 * scenario runs the tests with the client that connect makes.
 *
 * connect(busbar, { onToolsChanged }) returns { client, listens, call }:
 * listens is a promise that the stream of notifications is open, and
 * call(params, options) calls a tool.
 *
 * A service that stands still for a second is one that stopped answering, truthfully, so
 * calls about anything else are made again then. None of the tools does harm twice.
 */
export function scenario(name, { version, modern, connect }) {
  describe(name, () => {
    let busbar, service, connection;
    let changes = 0;
    before(told(async () => {
      busbar = await startDev();
      service = start('testservice', ...busbar.as('developer'));
      connection = await again(() => connect(busbar, { onToolsChanged: () => changes++ }));
      await within('the stream of notifications is open', connection.listens);
      await eventually('the test service is there', async () => (await names()).includes('slow'));
    }));
    after(async () => {
      await connection?.client.close();
      await service?.stop();
      assert.equal(await busbar?.stop(), 0, 'busbar dev ends in good order');
    });
    const call = (params, options) => again(() => connection.call(params, options));
    const list = () => again(() => connection.client.listTools());
    const names = async () => (await list()).tools.map(tool => tool.name);
    const rejected = async (params, expected) => {
      const error = await call(params).then(
        result => assert.fail(`succeeded: ${JSON.stringify(result)}`),
        error => error,
      );
      assert.equal(error.code, expected.code, error.message);
      assert.equal(error.data?.reason, expected.reason, error.message);
      assert.equal(error.data?.executed, expected.executed, error.message);
    };

    test(`speaks ${version}`, () => assert.equal(connection.version(), version));

    test('knows the server', () => {
      assert.equal(connection.client.getServerVersion()?.name, 'busbar');
      assert.equal(connection.client.getServerCapabilities()?.tools?.listChanged, true);
    });

    test('lists tools', async () => {
      const { tools } = await list();
      for (const name of ['analyzeText', 'summarizeText', 'extractEntities', 'text_processor']) {
        const tool = tools.find(tool => tool.name === name);
        assert.ok(tool, `${name} is listed`);
        assert.equal(tool.inputSchema.type, 'object');
        assert.equal(tool.outputSchema?.type, 'object');
        assert.equal(tool.annotations?.readOnlyHint, true);
      }
    });

    test('calls a tool, whose structured content fits its output schema', async () => {
      // The SDK validates it with the schema of the list before.
      const result = await call({
        name: 'text_processor',
        arguments: {
          operation: 'statistics',
          text: 'Это пример текста для анализа. Он содержит несколько предложений. Статистика будет рассчитана для этого текста.',
          stat_options: ['chars', 'words', 'sentences', 'readability'],
        },
      });
      assert.ok(!result.isError);
      assert.equal(result.structuredContent.words, 15);
      assert.equal(result.structuredContent.sentences, 3);
      assert.deepEqual(JSON.parse(result.content[0].text), result.structuredContent);
    });

    test('lists and calls tools whose schemas say little', async () => {
      const { tools } = await list();
      for (const name of ['loose', 'booleans']) {
        const { outputSchema } = tools.find(tool => tool.name === name) ?? assert.fail(`${name} is not listed`);
        for (const [member, schema] of Object.entries(outputSchema.properties)) {
          assert.equal(typeof schema, 'object', `${name}: ${member}`);
        }
      }
      const { structuredContent } = await call({ name: 'loose', arguments: {} });
      assert.deepEqual(
        [structuredContent.any, structuredContent.error, structuredContent.raw, structuredContent.number],
        [[1, 'x'], 'said', { a: 1 }, '1152921504606846976'],
      );
      const echoed = await call({ name: 'booleans', arguments: { any: 7, list: [null] } });
      assert.deepEqual(echoed.structuredContent, { any: 7, list: [null] });
    });

    test('gets the answer of an empty argument list', async () => {
      const result = await call({ name: 'log' });
      assert.ok(!result.isError);
    });

    test('gets a large result', async () => {
      const result = await call({ name: 'big', arguments: { bytes: 2 << 20 } });
      assert.equal(result.content[0].text.length, 2 << 20);
    });

    test("sees a tool's own failure", async () => {
      const result = await call({ name: 'fail', arguments: { value: 'here' } });
      assert.equal(result.isError, true);
      assert.equal(result.content[0].text, 'failed on purpose: here');
    });

    test('sees what is wrong with arguments', async () => {
      const result = await call({ name: 'analyzeText', arguments: { text: 7 } });
      assert.equal(result.isError, true);
      assert.match(result.content[0].text, /text/);
    });

    test('sees errors', async t => {
      const timeout = modern ? 1504 : -32000;
      await t.test('unknown tool', () => rejected({ name: 'no_such_tool' }, { code: -32602, reason: 'unknown_tool', executed: 'no' }));
      await t.test('panic', () => rejected({ name: 'panic' }, { code: -32603, reason: 'internal', executed: 'unknown' }));
      await t.test('timeout', () => rejected({ name: 'stuck' }, { code: timeout, reason: 'deadline_exceeded', executed: 'unknown' }));
    });

    test('sees progress', async () => {
      // Of steps that arrive in one piece with the answer the SDK does not tell: it takes
      // answers at once, notifications a tick later. It may be the last, and more where
      // something stood still.
      await eventually('three steps are seen before the answer', async () => {
        const seen = await again(async () => {
          const seen = [];
          await connection.call({ name: 'slow', arguments: { steps: 4, ms: 200 } }, { onprogress: p => seen.push([p.progress, p.total, p.message]) });
          return seen;
        });
        assert.deepEqual(seen, [1, 2, 3, 4].slice(0, seen.length).map(step => [step, 4, `step ${step}`]));
        return seen.length >= 3;
      });
    });

    test('makes calls at once', async () => {
      const texts = Array.from({ length: 50 }, (_, i) => `value ${i}`);
      const results = await Promise.all(texts.map(value => call({ name: 'echo', arguments: { value } })));
      assert.deepEqual(results.map(result => result.structuredContent.value), texts);
    });

    test('sees a service come and go', async t => {
      let hello;
      const greets = async () => (await names()).includes('greet');
      await t.test('comes', async () => {
        changes = 0;
        hello = start('hello', ...busbar.as('developer'));
        await eventually('list_changed', () => changes > 0);
        await eventually('greet is listed', greets);
        const result = await call({ name: 'greet', arguments: { name: 'Ada' } });
        assert.equal(result.structuredContent.greeting, 'Hello, Ada!');
      });
      await t.test('goes', async () => {
        changes = 0;
        assert.equal(await hello.stop(), 0);
        await eventually('list_changed', () => changes > 0);
        await eventually('greet is no longer listed', async () => !(await greets()));
        await rejected({ name: 'greet', arguments: { name: 'Ada' } }, { code: -32602, reason: 'unknown_tool', executed: 'no' });
      });
    });
  });
}
