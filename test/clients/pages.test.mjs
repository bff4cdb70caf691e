// The pages at /docs and /graphql in a real browser: CHROMIUM, or chromium of the path.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';

import { Validator } from '@seriousme/openapi-schema-validator';
import puppeteer from 'puppeteer-core';

import { eventually, latch, start, startDev } from './busbar.mjs';

describe('pages', () => {
  let busbar, service, browser;
  const at = path => new URL(path, busbar.mcp).href;
  before(async () => {
    busbar = await startDev();
    service = start('testservice', ...busbar.as('developer'));
    await eventually('the test service is there', async () => (await fetch(at('/tools/ask'))).ok);
    browser = await puppeteer.launch({
      executablePath: process.env.CHROMIUM || '/usr/bin/chromium',
      args: ['--no-sandbox', '--disable-dev-shm-usage', '--disable-gpu'],
    });
  });
  after(async () => {
    await browser?.close();
    await service?.stop();
    assert.equal(await busbar?.stop(), 0, 'busbar dev ends in good order');
  });

  /** open opens a page; wrong are violations of its policy, errors of its scripts and requests to other hosts. */
  async function open(path) {
    const page = await browser.newPage(), wrong = [];
    page.setDefaultTimeout(30_000);
    page.on('pageerror', e => wrong.push(`error: ${e.message}`));
    page.on('console', m => m.type() === 'error' && !/ status of 50[34] /.test(m.text()) && wrong.push(`console: ${m.text()}`)); // see until
    page.on('request', r => /^(data|blob):/.test(r.url()) || new URL(r.url()).host === busbar.mcp.host || wrong.push(`request: ${r.url()}`));
    await page.evaluateOnNewDocument(() => {
      window.violations = [];
      document.addEventListener('securitypolicyviolation', e => window.violations.push(`${e.violatedDirective} ${e.blockedURI} ${e.sourceFile}:${e.lineNumber} ${e.sample}`));
    });
    if (path) await page.goto(at(path));
    return { page, clean: async () => assert.deepEqual([...(await page.evaluate(() => window.violations)), ...wrong], []) };
  }
  const text = (page, selector) => page.$eval(selector, e => e.textContent);
  /** fill and click wait until what they are for is there, stands still and can be used. */
  const fill = (page, selector, value) => page.locator(selector).fill(value);
  const click = (page, scope, label) => page.locator(`${scope} ::-p-text(${label})`).click();
  /** until does what is refused because the machine stood still once more, and waits for what it comes to. */
  async function until(page, act, out, what) {
    for (let refused = true; refused; ) {
      await act();
      const come = await page.waitForFunction((out, what) => {
        const { textContent } = document.querySelector(out);
        return textContent.includes(what) ? 'done' : /unavailable|peer_lost/i.test(textContent) && 'refused';
      }, {}, out, what).catch(async e => {
        throw new Error(`${out} says ${await text(page, out)}, not ${what}`, { cause: e });
      });
      refused = (await come.jsonValue()) === 'refused';
    }
  }
  /** says waits until an element has a text. */
  const says = (page, selector, what) => page.waitForFunction((selector, what) => document.querySelector(selector)?.textContent.includes(what), {}, selector, what);

  test('the document of all tools is OpenAPI 3.1', async () => {
    const document = await (await fetch(at('/openapi.json'))).json(), validator = new Validator();
    const { valid, errors } = await validator.validate(document);
    assert.ok(valid && validator.version === '3.1', JSON.stringify(errors));
    assert.ok(document.paths['/tools/ask'].post.requestBody);
  });

  test('/docs calls a tool, is asked and agrees', async () => {
    const { page, clean } = await open('/docs');
    await page.waitForSelector('#swagger .opblock-tag');
    const choose = async tool => {
      await page.waitForFunction(tool => [...document.querySelectorAll('#tool option')].some(o => o.value === tool), {}, tool);
      await page.select('#tool', tool);
    };
    await choose('text_processor');
    await page.select('#call [name="field.operation"]', await page.$$eval('#call [name="field.operation"] option', all => all.find(o => o.textContent === 'statistics').value));
    await fill(page, '#call [name="field.text"]', 'One bus.');
    await fill(page, '#call [name="field.stat_options"]', '["words"]');
    await until(page, () => click(page, '#call', 'Call'), '#result', '"words": 2');

    await choose('ask');
    await until(page, () => click(page, '#call', 'Call'), '#result', 'waits for your answer');
    await fill(page, '#pending form [name="field.name"]', 'Ada');
    await until(page, () => click(page, '#pending form', 'Answer'), '#answered', 'accept Ada');
    await says(page, '#pending', 'Nothing.');

    await choose('approved');
    await until(page, () => click(page, '#call', 'Call (a person has to agree)'), '#result', 'waits for your answer');
    await until(page, () => click(page, '#pending .waiting', 'Agree'), '#answered', 'runs');
    await clean();
  });

  test('/docs with what hostile services say: each button does what is said beside it', async () => {
    const { page, clean } = await open(''), called = [], looks = [], expires = new Date().toISOString();
    const object = properties => ({ type: 'object', properties });
    const tools = [
      { name: 'clobber', description: 'first', input_schema: object(Object.fromEntries(['replaceChildren', 'append', 'onsubmit', 'submit'].map(n => [n, { type: 'string' }]))) },
      { name: 'odd', description: 'sec\u202eond', input_schema: object({ x: { oneOf: [true, null, { title: 'Yes' }, { const: 1, title: 'One' }, { const: 2, title: 'Two' }] }, y: { enum: 'a' }, z: null }) },
    ];
    const asks = id => ({ elicitation: id, name: 'sly', title: 'Busbar\u202e', expires });
    const answers = {
      '/tools': { tools },
      '/elicitations': { elicitations: [asks('e1'), asks('e2')] },
      '/elicitations/e1': { ...asks('e1'), requests: { q: null } },
      '/elicitations/e2': { ...asks('e2'), requests: { q: { message: '<img src=x onerror=alert(1)>', requested_schema: object({ append: { type: 'string' } }) }, r: { message: 'more', requested_schema: object({}) } } },
      '/approvals': { approvals: [{ approval: 'a1' }] },
      '/approvals/a1': { approval: 'a1', principal: 'ada', name: 'wipe', title: 'Harmless', shown: '{}', expires },
    };
    await page.setRequestInterception(true);
    page.on('request', async r => {
      const { pathname } = new URL(r.url()), post = r.method() === 'POST';
      if (pathname === '/approvals') looks.push(r);
      if (post) called.push([pathname, JSON.parse(r.postData())]);
      const body = post ? { content: [], is_error: false } : await answers[pathname];
      return body ? setTimeout(() => r.respond({ contentType: 'application/json', status: body.detail ? 503 : 200, body: JSON.stringify(body) }), post ? 50 : 0) : r.continue();
    });
    await page.goto(at('/docs'));
    await page.waitForSelector('#call [name="field.append"]');
    await page.select('#tool', 'odd');
    assert.deepEqual(await page.$$eval('#call select option', all => all.map(o => o.textContent)), ['', 'One', 'Two']);
    assert.equal(await text(page, '#call ~ p, section > p'), 'sec\\u{202e}ond');
    await page.select('#call select', await page.$$eval('#call option', all => all.find(o => o.textContent === 'Two').value));
    await page.$eval('#call button', b => (b.click(), b.click()));
    await page.waitForFunction(() => document.getElementById('result').textContent !== '…');
    assert.deepEqual(called, [['/tools/odd', { x: 2 }]]);

    await page.waitForSelector('#pending .waiting');
    const pending = await text(page, '#pending');
    for (const part of ['e1 cannot be shown', 'Busbar\\u{202e} (tool sly) asks', '<img src=x', 'more', 'ada wants to call Harmless (tool wipe)']) assert.ok(pending.includes(part), `${part} is not in ${pending}`);
    await page.$$eval('#pending .waiting button', ([agree, refuse]) => (agree.click(), refuse.click()));
    await page.waitForFunction(() => document.querySelector('.waiting button')?.disabled === false);
    assert.deepEqual(called.slice(1), [['/approvals/a1', { approve: true }]]);
    await clean();

    await fill(page, '#pending [name="field.append"]', 'half a na');
    answers['/approvals'] = { detail: 'not now' };
    await click(page, '.bb', 'Look again');
    await says(page, '#pending', 'not now');
    assert.equal(await page.$eval('#pending [name="field.append"]', e => e.value), 'half a na', 'what is typed stays');
    assert.ok(await page.$('#pending .waiting'), 'what a list had that cannot be read now stays');

    const late = latch();
    answers['/approvals'] = late.promise.then(() => ({ approvals: [{ approval: 'a1' }] }));
    const before = looks.length;
    await click(page, '.bb', 'Look again');
    await eventually('somebody looks', () => looks.length > before);
    answers['/approvals'] = { approvals: [] };
    await click(page, '.bb', 'Look again');
    await page.waitForFunction(() => !document.querySelector('#pending .waiting'));
    late.open();
    await eventually('the first look is answered', () => looks[before].response());
    await page.evaluate(() => new Promise(drawn => requestAnimationFrame(() => requestAnimationFrame(drawn))));
    assert.equal(await page.$('#pending .waiting'), null, 'the answer to an earlier look does not replace that to a later one');
  });

  test('/graphql runs a query and answers what a mutation asks', async () => {
    const { page, clean } = await open('/graphql');
    await page.waitForSelector('.graphiql-execute-button');
    const run = async query => {
      await page.evaluate(query => document.querySelector('.graphiql-query-editor .CodeMirror').CodeMirror.setValue(query), query);
      await page.locator('.graphiql-execute-button[aria-label^="Execute"]').click(); // while a query runs it stops that
    };
    await until(page, () => run('{ getTool(name: "text_processor") { name } }'), '.result-window', 'text_processor');
    await page.locator('[aria-label*="GraphiQL Explorer"]').click();
    await page.waitForSelector('.docExplorerWrap, .graphiql-explorer-root');
    await until(page, () => run('mutation { executeTool(input: {name: "ask"}) { is_error } }'), '.result-window', 'INPUT_REQUIRED');
    await page.waitForFunction(() => document.activeElement.textContent === 'Waits for an answer');
    await page.keyboard.press('Tab');
    assert.equal(await page.evaluate(() => document.activeElement.name), 'field.name');
    await page.focus('.graphiql-query-editor textarea');
    await page.keyboard.press('Tab');
    assert.ok(await page.evaluate(() => !document.activeElement.closest('.CodeMirror')), 'Tab leaves the editor');
    await page.setViewport({ width: 400, height: 800 });
    await page.waitForFunction(() => document.querySelector('.result-window').clientWidth > 250); // a narrow screen shows the answer
    await until(page, () => click(page, '#pending form', 'Decline'), '#answered', 'decline');
    await clean();
  });
});
