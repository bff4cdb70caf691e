// Runs the programs of Busbar for a test.
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('../..', import.meta.url));

export const program = name => join(root, name === 'testservice' ? '.tmp/bin' : 'bin', name);

// Settings of Busbar's that a developer may have stay outside.
export const environment = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith('BUSBAR_')));

const running = new Set();
process.on('exit', () => running.forEach(child => child.kill('SIGKILL')));

/** start runs a program; what it writes to standard error is kept. */
export function start(name, ...args) {
  const child = spawn(program(name), args, { env: environment, stdio: ['ignore', 'pipe', 'pipe'] });
  running.add(child);
  child.log = '';
  child.stderr.on('data', data => (child.log += data));
  child.gone = new Promise(resolve =>
    child.on('exit', (code, signal) => {
      running.delete(child);
      resolve(code ?? signal);
    }),
  );
  child.stop = async (signal = 'SIGTERM') => {
    child.kill(signal);
    return child.gone;
  };
  return child;
}

/** startDev runs a whole Busbar on free ports, with more arguments. */
export async function startDev(...args) {
  const data = mkdtempSync(join(tmpdir(), 'busbar-clients-'));
  const child = start('busbar', 'dev', '--listen', '127.0.0.1:0', '--nats-listen', '127.0.0.1:0', '--data-dir', data, ...args);
  const line = await Promise.race([
    new Promise(resolve => createInterface(child.stdout).once('line', resolve)),
    child.gone.then(code => {
      throw new Error(`busbar dev ended with ${code}: ${child.log}`);
    }),
    timeout(20_000, 'busbar dev is not ready'),
  ]);
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
      rmSync(data, { recursive: true, force: true });
      return code;
    },
  };
}

/** timeout fails after some milliseconds, without keeping the process alive. */
export function timeout(ms, what) {
  return new Promise((_, fail) => setTimeout(() => fail(new Error(`${what} after ${ms} ms`)), ms).unref());
}

/** eventually waits until ok returns something true, and returns that. */
export async function eventually(what, ok, ms = 10_000) {
  for (const end = Date.now() + ms; ; ) {
    const value = await ok();
    if (value) return value;
    if (Date.now() > end) throw new Error(`did not happen in ${ms} ms: ${what}`);
    await new Promise(resolve => setTimeout(resolve, 20));
  }
}

/** latch is a promise to be resolved from outside. */
export function latch() {
  let open;
  const promise = new Promise(resolve => (open = resolve));
  return { promise, open };
}
