// Prints what the suite said, and fails unless all of it is good:
// summary.mjs DIRECTORY REVISION…, where the directory holds scenarios, the
// suite's list of them, and <revision>/<scenario>/checks.json. What is not good is
// named in its file failed, a line each: <revision> <scenario>.
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parse } from 'yaml';

const [dir, ...revisions] = process.argv.slice(2);

// Checks nothing: what it is about is not in the extension any more.
const empty = 'tasks-status-notifications';
const extensions = readFileSync(join(dir, 'scenarios'), 'utf8')
  .split('\n')
  .flatMap((line) => line.match(/^ *- (\S+) \[extension\]$/)?.[1] ?? [])
  .filter((name) => name !== empty);
const extensionOf = (name) => (name.startsWith('tasks-') ? 'tasks' : name.startsWith('sep-2640-') ? 'skills' : 'other extensions');

const scored = (group) => !group.endsWith('not scored');

// Of each revision and group: the scenarios expected, and those found with
// their checks.
const groups = [];
const notes = [];
const failed = [];

for (const revision of revisions) {
  const requirements = parse(readFileSync(`node_modules/@modelcontextprotocol/conformance/requirements/${revision}.yaml`, 'utf8'));
  const unscored = requirements.not_scored.filter((e) => e.leg === 'server' && e.reason !== 'extension');
  const expected = [
    ...requirements.server.map((name) => ['required', name]),
    // Extensions are of the newest revision.
    ...(revision === revisions.at(-1) ? extensions.map((name) => [extensionOf(name), name]) : []),
    ...unscored.map((e) => [`${e.reason}, not scored`, e.scenario]),
  ];
  const found = new Map(readdirSync(join(dir, revision)).map((entry) => [entry.replace(/^server-/, '').replace(/-\d{4}-\d\d-\d\dT.*$/, ''), entry]));
  for (const [group, name] of expected) {
    let sum = groups.find((g) => g.revision === revision && g.group === group);
    if (!sum) {
      sum = { revision, group, scenarios: 0, passing: 0, SUCCESS: 0, FAILURE: 0, WARNING: 0, INFO: 0, SKIPPED: 0 };
      groups.push(sum);
    }
    sum.scenarios++;
    if (!found.has(name)) {
      notes.push(`${revision} MISSING ${name}: it did not run`);
      if (scored(group)) failed.push(`${revision} ${name}\n`);
      continue;
    }
    const checks = JSON.parse(readFileSync(join(dir, revision, found.get(name), 'checks.json'), 'utf8'))
      // What went over the wire is recorded among the checks.
      .filter((c) => !['outgoing-request', 'incoming-response'].includes(c.id));
    sum.passing += checks.some((c) => c.status === 'FAILURE') ? 0 : 1;
    if (scored(group) && !checks.every((c) => c.status === 'SUCCESS')) failed.push(`${revision} ${name}\n`);
    for (const c of checks) {
      sum[c.status]++;
      if (c.status !== 'SUCCESS') {
        notes.push(`${revision} ${c.status} ${name}: ${c.id}: ${c.errorMessage ?? c.details?.message ?? ''}`);
      }
    }
  }
}

writeFileSync(join(dir, 'failed'), failed.join(''));
console.table(groups.map(({ scenarios, passing, ...rest }) => ({ ...rest, scenarios: `${passing}/${scenarios}` })));
if (notes.length > 0) console.log(notes.join('\n'));

let good = true;
const score = (name, group) => {
  const of = groups.filter((g) => g.group === group);
  const add = (f) => of.reduce((n, g) => n + f(g), 0);
  const [passing, scenarios, succeeded] = [add((g) => g.passing), add((g) => g.scenarios), add((g) => g.SUCCESS)];
  const checks = succeeded + add((g) => g.FAILURE + g.WARNING + g.INFO + g.SKIPPED);
  good &&= scenarios > 0 && passing === scenarios && checks > 0 && succeeded === checks;
  return ` ${name} ${passing}/${scenarios} checks ${succeeded}/${checks}`;
};
let line = 'conformance:';
for (const group of ['required', 'tasks', 'skills']) line += score(group, group);
for (const { group } of groups) if (group === 'other extensions') line += score('other', group);
console.log(line);
process.exitCode = good ? 0 : 1;
