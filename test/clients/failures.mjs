// A reporter for logs, which are read for what failed, and of which some show little: it says
// nothing of what passes, and of failures, with what the programs logged, all at the end.
import { relative } from 'node:path';

const last = (text, lines) => text.trimEnd().split('\n').slice(-lines);
const indented = lines => lines.map(line => `    ${line}`).join('\n');

/** explained is what went wrong, without the way through node itself. */
function explained(error) {
  const cause = error.cause?.stack ? error.cause : error;
  const way = String(cause.stack ?? '').split('\n').filter(line => /^ +at .*(file:|\.m?js)/.test(line) && !line.includes('node:'));
  return indented([...String(cause.message ?? cause).split('\n').slice(0, 60), ...way.slice(0, 4)]);
}

export default async function* failures(source) {
  const names = []; // of the test that runs, and of the suites that it is in
  const failed = [];
  const said = new Map(); // what each file of tests wrote to standard error
  let again = 0, passed = 0, cancelled = 0;
  for await (const { type, data } of source) {
    switch (type) {
      case 'test:start':
        names.splice(data.nesting, Infinity, data.name);
        break;
      case 'test:pass':
        if (data.details.type !== 'suite') passed++;
        break;
      case 'test:fail': {
        const { error, duration_ms } = data.details;
        if (error.failureType === 'subtestsFailed') break; // each is told of by itself
        if (error.failureType === 'cancelledByParent') {
          cancelled++;
          break;
        }
        const name = [...names.slice(0, data.nesting), data.name].join(' › ');
        failed.push({ data, text: `✖ ${relative('.', data.file ?? '')}:${data.line}: ${name} (${Math.round(duration_ms)} ms)\n${explained(error)}` });
        break;
      }
      case 'test:diagnostic': {
        const of = failed.findLast(({ data: { file, line } }) => file === data.file && line === data.line);
        if (of && data.message.startsWith('log of ')) of.text += `\n${indented(data.message.split('\n'))}`;
        break;
      }
      case 'test:stderr': {
        const lines = data.message.split('\n');
        const others = lines.filter(line => !line.startsWith('made again: '));
        again += lines.length - others.length;
        said.set(data.file, (said.get(data.file) ?? '') + others.join('\n'));
      }
    }
  }
  if (failed.length > 0) {
    for (const [file, text] of said) if (text.trim()) yield `== ${relative('.', file)} wrote at last\n${indented(last(text, 20))}\n`;
    yield `== failed\n${failed.map(({ text }) => text).join('\n')}\n`;
  }
  if (again > 0) yield `== ${again} calls were made again, because something stood still\n`;
  yield `== ${passed} tests passed, ${failed.length} failed, ${cancelled} did not run\n`;
}
