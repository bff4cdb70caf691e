// Prints what the suite said: summary.mjs DIRECTORY REVISION…, where the
// directory holds <revision>/<scenario>/checks.json.
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parse } from 'yaml';

const [dir, ...revisions] = process.argv.slice(2);
const table = [];
const notes = [];

for (const revision of revisions) {
  const requirements = parse(readFileSync(`node_modules/@modelcontextprotocol/conformance/requirements/${revision}.yaml`, 'utf8'));
  const unscored = new Map(requirements.not_scored.filter((e) => e.leg === 'server').map((e) => [e.scenario, e.reason]));
  const sums = new Map();
  for (const entry of readdirSync(join(dir, revision)).sort()) {
    const name = entry.replace(/^server-/, '').replace(/-\d{4}-\d\d-\d\dT.*$/, '');
    const checks = JSON.parse(readFileSync(join(dir, revision, entry, 'checks.json'), 'utf8'))
      // What went over the wire is recorded among the checks.
      .filter((c) => !['outgoing-request', 'incoming-response'].includes(c.id));
    const group = requirements.server.includes(name) ? 'required' : (unscored.get(name) ?? 'unknown');
    const sum = sums.get(group) ?? { scenarios: 0, passing: 0, SUCCESS: 0, FAILURE: 0, WARNING: 0, INFO: 0, SKIPPED: 0 };
    sums.set(group, sum);
    sum.scenarios++;
    sum.passing += checks.some((c) => c.status === 'FAILURE') ? 0 : 1;
    for (const c of checks) {
      sum[c.status]++;
      // The suite does not count extensions; we do.
      if (c.status === 'FAILURE' && group === 'extension') process.exitCode = 1;
      if (c.status !== 'SUCCESS') {
        notes.push(`${revision} ${c.status} ${name}: ${c.id}: ${c.errorMessage ?? c.details?.message ?? ''}`);
      }
    }
  }
  for (const group of [...sums.keys()].sort((a, b) => (b === 'required') - (a === 'required') || a.localeCompare(b))) {
    const { scenarios, passing, ...statuses } = sums.get(group);
    table.push({ revision, group, scenarios: `${passing}/${scenarios}`, ...statuses });
  }
}

console.table(table);
console.log(notes.join('\n'));
