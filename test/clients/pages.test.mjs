// The pages at /docs and /graphql in a real browser: CHROMIUM, or chromium of the path.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';

import { Validator } from '@seriousme/openapi-schema-validator';
import puppeteer from 'puppeteer-core';

import { eventually, start, startDev } from './busbar.mjs';

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
    page.on('console', m => m.type() === 'error' && wrong.push(`console: ${m.text()}`));
    page.on('request', r => /^(data|blob):/.test(r.url()) || new URL(r.url()).host === busbar.mcp.host || wrong.push(`request: ${r.url()}`));
    await page.evaluateOnNewDocument(() => {
      window.violations = [];
      document.addEventListener('securitypolicyviolation', e => window.violations.push(`${e.violatedDirective} ${e.blockedURI} ${e.sourceFile}:${e.lineNumber} ${e.sample}`));
    });
    await page.goto(at(path));
    return { page, clean: async () => assert.deepEqual([...(await page.evaluate(() => window.violations)), ...wrong], []) };
  }
  const text = (page, selector) => page.$eval(selector, e => e.textContent);
  const click = (page, scope, label) =>
    page.evaluate((scope, label) => [...document.querySelectorAll(`${scope} button`)].find(b => b.textContent === label).click(), scope, label);

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
    await page.select('#call [name=operation]', await page.$$eval('#call [name=operation] option', all => all.find(o => o.textContent === 'statistics').value));
    await page.type('#call [name=text]', 'One bus.');
    await page.type('#call [name=stat_options]', '["words"]');
    await page.click('#call button');
    await page.waitForFunction(() => document.getElementById('result').textContent.includes('"words": 2'));

    await choose('ask');
    await page.click('#call button');
    await page.waitForSelector('#pending form [name=name]');
    await page.type('#pending form [name=name]', 'Ada');
    await click(page, '#pending form', 'Answer');
    await page.waitForFunction(() => document.getElementById('answered').textContent.includes('accept Ada'));
    assert.equal(await text(page, '#pending'), 'Nothing.');

    await choose('approved');
    await page.click('#call button');
    await page.waitForSelector('#pending .waiting');
    await click(page, '#pending .waiting', 'Agree');
    await page.waitForFunction(() => document.getElementById('answered').textContent.includes('runs'));
    await clean();
  });

  test('/graphql runs a query and answers what a mutation asks', async () => {
    const { page, clean } = await open('/graphql');
    await page.waitForSelector('.graphiql-execute-button');
    const run = async query => {
      await page.evaluate(query => document.querySelector('.graphiql-query-editor .CodeMirror').CodeMirror.setValue(query), query);
      await page.click('.graphiql-execute-button');
    };
    const answered = what => page.waitForFunction(what => document.querySelector('.result-window')?.textContent.includes(what), {}, what);
    await run('{ getTool(name: "text_processor") { name } }');
    await answered('text_processor');
    await page.click('[aria-label*="GraphiQL Explorer"]');
    await page.waitForSelector('.docExplorerWrap, .graphiql-explorer-root');
    await run('mutation { executeTool(input: {name: "ask"}) { is_error } }');
    await answered('INPUT_REQUIRED');
    await page.waitForSelector('#pending form [name=name]');
    await click(page, '#pending form', 'decline');
    await page.waitForFunction(() => document.getElementById('answered').textContent.includes('decline'));
    await clean();
  });
});
