// Runs the programs of Busbar for a test.
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { afterEach } from 'node:test';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('../..', import.meta.url));

// How long a test waits for what has to happen: far longer than a slow machine needs.
const patience = 60_000;

export const program = name => join(root, name === 'testservice' ? '.tmp/bin' : 'bin', name);

// Settings of Busbar's that a developer may have stay outside.
export const environment = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith('BUSBAR_')));

// A program may still write while its directory is removed.
const remove = dir => rmSync(dir, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 });

/** directory makes one for data, and says how it is removed. */
export function directory() {
  const data = mkdtempSync(join(tmpdir(), 'busbar-clients-'));
  return { data, remove: () => remove(data) };
}

const running = new Set();
process.on('exit', () => running.forEach(child => child.kill('SIGKILL')));

/** logs is what the programs that nobody has stopped said last, and has not been told yet. */
function logs() {
  let all = '';
  for (const child of running) {
    const lines = child.log.trim().split('\n');
    child.log = '';
    const end = lines.findIndex(line => /^(panic|fatal error):/.test(line));
    const told = end < 0 ? lines.slice(-20) : lines.slice(end, end + 20);
    if (told[0]) all += `log of ${child.name}:\n${told.join('\n')}\n`;
  }
  return all.trimEnd();
}

// failures.mjs prints it with the failure.
afterEach(t => {
  const said = t.passed === false && logs();
  if (said) t.diagnostic(said);
});

/** told makes a function to be called before all tests of a suite, whose failure has the logs as well. */
export const told = setUp => async () => {
  try {
    await setUp();
  } catch (error) {
    throw new Error(`${error.message}\n${logs()}`, { cause: error });
  }
};

/** start runs a program; what it writes to standard error is kept. */
export function start(name, ...args) {
  const child = spawn(program(name), args, { env: environment, stdio: ['ignore', 'pipe', 'pipe'] });
  running.add(child);
  child.name = name;
  child.log = '';
  child.stderr.on('data', data => (child.log += data));
  child.gone = new Promise(resolve => child.on('exit', (code, signal) => resolve(code ?? signal)));
  child.stop = async (signal = 'SIGTERM') => {
    child.kill(signal);
    const code = await child.gone;
    if (code !== 0) console.error(`${name} ended with ${code}\n${logs()}`);
    running.delete(child);
    return code;
  };
  return child;
}

/** startDev runs a whole Busbar on free ports, with more arguments. */
export async function startDev(...args) {
  const { data, remove } = directory();
  const child = start('busbar', '--log-level', 'info', 'dev', '--listen', '127.0.0.1:0', '--nats-listen', '127.0.0.1:0', '--data-dir', data, ...args);
  const line = await within('busbar dev is ready', Promise.race([
    new Promise(resolve => createInterface(child.stdout).once('line', resolve)),
    child.gone.then(code => {
      throw new Error(`busbar dev ended with ${code}: ${child.log}`);
    }),
  ]));
  const ready = /^busbar dev is ready: mcp=(\S+) nats=(\S+) data=(\S+)(?: oauth=(\S+))?$/.exec(line);
  if (!ready) throw new Error(`not a ready line: ${line}`);
  return {
    mcp: new URL(ready[1]),
    // The arguments by which a program joins the bus, as one of its users.
    as: user => ['--nats', ready[2], '--nats-nkey', join(data, 'users', `${user}.secret`)],
    oauth: ready[4] && new URL(ready[4]),
    child,
    async stop() {
      const code = await child.stop();
      remove();
      return code;
    },
  };
}

const late = what => new Error(`did not happen in ${patience} ms: ${what}`);

/** within waits for a promise, but not for ever. */
export function within(what, promise) {
  return Promise.race([promise, new Promise((_, fail) => setTimeout(() => fail(late(what)), patience).unref())]);
}

/** eventually waits until ok returns something true, and returns that. */
export async function eventually(what, ok) {
  for (const end = Date.now() + patience; ; ) {
    const value = await ok();
    if (value) return value;
    if (Date.now() > end) throw late(what);
    await new Promise(resolve => setTimeout(resolve, 20));
  }
}

/** stoodStill reports whether an edge says only that a service or NATS was silent for a second, as on a machine that stands still. */
const stoodStill = said => /stopped answering|the audit trail cannot be written|shared state is not reachable/.test(said);

/** again makes a call that is about something else once more when it came to nothing for that alone. */
export async function again(call) {
  for (const end = Date.now() + patience; ; ) {
    try {
      return await call();
    } catch (error) {
      if (!stoodStill(error.message) || Date.now() > end) throw error;
      console.error(`made again: ${error.message}`); // failures.mjs counts it
    }
  }
}

/** latch is a promise to be resolved from outside. */
export function latch() {
  let open;
  const promise = new Promise(resolve => (open = resolve));
  return { promise, open };
}
