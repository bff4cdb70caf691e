// Clients of the official SDKs log in at the development authorization server, refresh
// their tokens, and step up to a scope that a call needs.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';

import * as v2 from '@modelcontextprotocol/client';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';

import { again, startDev, told } from './busbar.mjs';

const info = { name: 'busbar-clients', version: '1.0.0' };
const callback = 'http://127.0.0.1:33418/callback';

/** person is an OAuthClientProvider whose user logs in, by the page that a browser would show. */
class Person {
  redirectUrl = callback;
  clientMetadata = {
    client_name: 'busbar-clients',
    redirect_uris: [callback],
    grant_types: ['authorization_code', 'refresh_token'],
    response_types: ['code'],
    token_endpoint_auth_method: 'none',
  };
  // What the client is given at each login; everything it asks for, when there is no more.
  constructor(user, ...grants) {
    Object.assign(this, { user, grants, asked: [], refreshed: 0 });
  }
  clientInformation = () => this.client;
  saveClientInformation = client => (this.client = client);
  tokens = () => this.token;
  saveTokens = token => (this.token = token);
  codeVerifier = () => this.verifier;
  saveCodeVerifier = verifier => (this.verifier = verifier);
  // By which the client knows that the answer comes from the server it asked.
  discoveryState = () => this.found;
  saveDiscoveryState = found => (this.found = found);

  async redirectToAuthorization(url) {
    const query = url.searchParams;
    this.asked.push(query.get('scope').split(' ').filter(scope => scope !== 'offline_access'));
    assert.equal(query.get('code_challenge_method'), 'S256');
    this.resource = query.get('resource');
    const page = await fetch(url);
    const text = await page.text();
    assert.equal(page.status, 200, text);
    const cookie = page.headers.getSetCookie().map(set => set.split(';')[0]).join('; ');
    const form = new URLSearchParams({ login: /name="login" value="([^"]+)"/.exec(text)[1], user: this.user, answer: 'allow' });
    const offered = [...text.matchAll(/name="scope" value="([^"]+)"/g)].map(match => match[1]);
    for (const scope of this.grants.shift() ?? offered) form.append('scope', scope);
    const answer = await fetch(new URL(url.pathname, url), {
      method: 'POST', body: form, redirect: 'manual', headers: { cookie, origin: url.origin, 'sec-fetch-site': 'same-origin' },
    });
    const to = new URL(answer.headers.get('location') ?? assert.fail(`${answer.status} ${await answer.text()}`));
    assert.ok(to.href.startsWith(callback));
    this.answer = to.searchParams;
  }
}

const sdks = {
  'sdk 1.x': {
    make: () => new Client(info),
    transport: (url, options) => new StreamableHTTPClientTransport(url, options),
    finish: (transport, answer) => transport.finishAuth(answer.get('code')),
    call: (client, params) => client.callTool(params),
  },
};
for (const [name, mode] of [['pinned', { pin: '2026-07-28' }], ['legacy', 'legacy']]) {
  sdks[`client 2.x, ${name}`] = {
    make: () => new v2.Client(info, { versionNegotiation: { mode } }),
    transport: (url, options) => new v2.StreamableHTTPClientTransport(url, options),
    finish: (transport, answer) => transport.finishAuth(answer),
    call: (client, params) => client.callTool(params),
  };
}

describe('log in', () => {
  let busbar;
  before(told(async () => (busbar = await startDev('--oauth', '--oauth-listen', '127.0.0.1:0'))));
  after(async () => assert.equal(await busbar?.stop(), 0, 'busbar dev ends in good order'));

  /** unauthorized is what the client throws when its user is at the login page. */
  const unauthorized = async attempt => {
    const error = await attempt().then(
      result => assert.fail(`succeeded: ${JSON.stringify(result)}`),
      error => error,
    );
    assert.equal(error.constructor.name, 'UnauthorizedError', error.stack);
  };

  /** connect logs a person in, and connects. */
  const connect = async (sdk, person) => {
    const requests = [];
    const watched = async (url, init) => {
      const response = await fetch(url, init);
      requests.push({ path: new URL(url).pathname, status: response.status, challenge: response.headers.get('www-authenticate'), body: init?.body });
      return response;
    };
    const open = () => sdk.transport(busbar.mcp, { authProvider: person, fetch: watched });
    let transport = open();
    await unauthorized(() => sdk.make().connect(transport));
    await sdk.finish(transport, person.answer);
    const client = sdk.make();
    transport = open();
    await client.connect(transport);
    return { client, transport, requests, call: params => again(() => sdk.call(client, params)) };
  };

  const statistics = { name: 'text_processor', arguments: { operation: 'statistics', text: 'One bus.', stat_options: ['words'] } };

  for (const [name, sdk] of Object.entries(sdks)) {
    test(`${name} logs in, and sees what its scope allows`, async () => {
      const ada = new Person('ada', ['mcp:read']);
      const { client, requests, call } = await connect(sdk, ada);
      // It went from the challenge to the metadata, and from there to the server.
      assert.equal(requests[0].status, 401);
      assert.match(requests[0].challenge, /resource_metadata="[^"]+\/\.well-known\/oauth-protected-resource\/mcp"/);
      const paths = new Set(requests.map(request => request.path));
      paths.delete('/mcp');
      assert.deepEqual([...paths], ['/.well-known/oauth-protected-resource/mcp', '/.well-known/oauth-authorization-server', '/register', '/token']);
      assert.equal(ada.resource, busbar.mcp.href);
      const names = (await client.listTools()).tools.map(tool => tool.name);
      assert.ok(names.includes('analyzeText') && !names.includes('text_processor'), names.join());
      const { structuredContent } = await call({ name: 'analyzeText', arguments: { text: 'One bus. Many circuits.' } });
      assert.equal(structuredContent.statistics.sentenceCount, 2);
      assert.equal(ada.asked.length, 1);
      await client.close();
    });

    test(`${name} refreshes its token`, async () => {
      const ada = new Person('ada', ['mcp:read']);
      const { client, requests, call } = await connect(sdk, ada);
      const first = ada.token;
      assert.ok(first.refresh_token);
      // As one that has expired.
      ada.token = { ...first, access_token: `${first.access_token}x` };
      await call({ name: 'analyzeText', arguments: { text: 'One bus.' } });
      assert.ok(requests.some(request => new URLSearchParams(request.body).get('grant_type') === 'refresh_token'));
      assert.notEqual(ada.token.refresh_token, first.refresh_token);
      assert.equal(ada.asked.length, 1, 'nobody was asked');
      await client.close();
    });

    test(`${name} steps up`, async () => {
      const ada = new Person('ada', ['mcp:read']);
      const { client, transport, requests, call } = await connect(sdk, ada);
      requests.length = 0;
      // The 1.x line takes a refresh token for a step up, whatever its scope.
      if (name === 'sdk 1.x') delete ada.token.refresh_token;
      await unauthorized(() => call(statistics));
      const refused = requests.find(request => request.status === 403);
      assert.match(refused.challenge, /^Bearer error="insufficient_scope", scope="mcp:call", resource_metadata="/);
      assert.ok(ada.asked[1].includes('mcp:call'), ada.asked[1].join());
      await sdk.finish(transport, ada.answer);
      const { structuredContent } = await call(statistics);
      assert.equal(structuredContent.words, 2);
      assert.equal(ada.asked.length, 2);
      await client.close();
    });
  }

  test('bob, whom no role helps, sees nothing', async () => {
    const bob = new Person('bob');
    const { client, call } = await connect(sdks['client 2.x, pinned'], bob);
    assert.deepEqual((await client.listTools()).tools, []);
    await assert.rejects(call(statistics), { code: -32602 });
    assert.equal(bob.asked.length, 1);
    await client.close();
  });
});
