// Tools by forms, and what waits for an answer: elicitations and approvals. Texts of
// services are only ever set as text, and what a service says may be of any form: none of
// it keeps another's from being shown, or has a button do what it does not say.
const element = (tag, props = {}, ...children) => {
  const e = Object.assign(document.createElement(tag), props);
  e.append(...children);
  return e;
};

/** visible writes what steers or hides text as escapes. */
const visible = text => String(text ?? '').replace(/(?![\n\t])[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, c => `\\u{${c.codePointAt(0).toString(16)}}`);
/** named is a tool by its title and always by its name. */
const named = tool => visible(tool.title && tool.title !== tool.name ? `${tool.title} (tool ${tool.name})` : tool.name);

/** once keeps the buttons of a part shut while its work runs: a double click is one. */
const once = async (part, work) => {
  const buttons = [...part.querySelectorAll('button')];
  if (buttons.some(b => b.disabled)) return;
  buttons.forEach(b => (b.disabled = true));
  try {
    await work();
  } finally {
    buttons.forEach(b => (b.disabled = false));
  }
};

const request = async (path, body) => {
  let response, value;
  try {
    response = await fetch(path, body === undefined ? { signal: AbortSignal.timeout(10_000) } : {
      method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(body),
    });
  } catch {
    return { status: 0, ok: false, value: { detail: body === undefined ? 'Busbar does not answer; look again' : 'Busbar has not answered; whether this was done is unknown' } };
  }
  try {
    value = await response.json();
  } catch {
    value = { detail: `status ${response.status}, without JSON` };
  }
  return { status: response.status, ok: response.status === 200, value };
};

const typeOf = schema => (Array.isArray(schema?.type) ? schema.type.find(t => t !== 'null') : schema?.type);

/** choicesOf are the values that a schema names, each with what it is called. */
function choicesOf(schema) {
  if (Array.isArray(schema?.enum)) return schema.enum.map((value, i) => ({ value, title: schema.enumNames?.[i] ?? value }));
  const all = Array.isArray(schema?.oneOf) ? schema.oneOf : [];
  return all.filter(o => o && typeof o === 'object' && 'const' in o).map(o => ({ value: o.const, title: o.title ?? o.const }));
}

/** field is a control for a value of a schema; value() is undefined where nothing is given, and throws where the text is not such a value. */
function field(name, schema, required) {
  const type = typeOf(schema);
  const choices = choicesOf(schema);
  const about = [visible(schema?.description), required ? 'required' : ''].filter(Boolean).join(' · ');
  let control, value;
  if (choices.length) {
    control = element('select', {}, ...(required ? [] : [element('option', { value: '' })]),
      ...choices.map((c, i) => element('option', { value: String(i), textContent: visible(typeof c.title === 'object' ? JSON.stringify(c.title) : c.title) })));
    value = () => (control.value === '' ? undefined : choices[Number(control.value)].value);
    const preset = choices.findIndex(c => c.value === schema.default);
    if (preset >= 0) control.value = String(preset);
  } else if (type === 'boolean') {
    control = element('input', { type: 'checkbox', checked: schema.default === true });
    value = () => (control.checked || required || schema.default !== undefined ? control.checked : undefined);
  } else if (type === 'string') {
    const kinds = { email: 'email', uri: 'url', date: 'date' };
    control = element('input', { type: kinds[schema.format] ?? 'text', value: schema.default ?? '' });
    value = () => (control.value === '' && !required ? undefined : control.value);
  } else if (type === 'number' || type === 'integer') {
    control = element('input', { inputMode: 'decimal', value: schema.default ?? '' });
    value = () => {
      if (control.value.trim() === '') return undefined;
      const n = Number(control.value);
      if (Number.isNaN(n)) throw new Error(`${name} is not a number`);
      return n;
    };
  } else {
    control = element('textarea', { rows: 2, placeholder: 'JSON', value: schema?.default === undefined ? '' : JSON.stringify(schema.default) });
    value = () => {
      if (control.value.trim() === '') return undefined;
      try {
        return JSON.parse(control.value);
      } catch {
        throw new Error(`${name} is not JSON`);
      }
    };
  }
  control.name = `field.${name}`; // alone it could stand for a part of the form, such as its onsubmit
  const called = schema?.title && schema.title !== name ? `${schema.title} (${name})` : name;
  return { label: element('label', {}, element('span', { textContent: visible(called) }), control, element('small', { textContent: about })), value };
}

/** fields are the controls for an object of a schema. */
function fields(schema) {
  const required = Array.isArray(schema?.required) ? schema.required : [];
  const all = Object.entries(schema?.properties ?? {}).map(([name, s]) => [name, field(name, s, required.includes(name))]);
  return {
    labels: all.map(([, f]) => f.label),
    value: () => Object.fromEntries(all.map(([name, f]) => [name, f.value()]).filter(([, v]) => v !== undefined)),
  };
}

const said = answer => {
  const { content, ...rest } = answer.value ?? {};
  const text = Array.isArray(content) ? content.map(c => c.text ?? `[${c.type}]`).join('\n') : '';
  if (answer.ok && rest.structured_content === undefined) return text;
  return JSON.stringify(answer.ok ? rest.structured_content : answer.value, null, 1);
};

const show = (out, answer) => {
  out.className = answer.ok && !answer.value?.is_error ? '' : 'failed';
  out.textContent = answer.status === 202 ? 'It waits for your answer below.' : said(answer);
};

/** callPanel has a form for each tool. */
export function callPanel(pending) {
  const tools = new Map(), choose = element('select', { id: 'tool' }), form = element('form', { id: 'call' }), about = element('p');
  const out = element('pre', { id: 'result' });
  out.setAttribute('aria-live', 'polite');
  const shown = () => {
    const tool = tools.get(choose.value);
    if (!tool) return;
    about.textContent = visible(tool.description);
    out.textContent = '';
    const { labels, value } = fields(tool.input_schema);
    form.replaceChildren(...labels, element('button', { textContent: tool.requires_user_approval ? 'Call (a person has to agree)' : 'Call' }));
    const call = async () => {
      try {
        out.className = '';
        const args = value();
        out.textContent = '…';
        const answer = await request(`/tools/${encodeURIComponent(tool.name)}`, args);
        show(out, answer);
        if (answer.status === 202) await pending.ask();
      } catch (e) {
        out.className = 'failed';
        out.textContent = e.message;
      }
    };
    form.onsubmit = event => {
      event.preventDefault();
      once(form, call);
    };
  };
  choose.onchange = shown;
  (async () => {
    // The first tool is there before the last is known: whoever has begun to type keeps that.
    for (let cursor = ''; ; ) {
      const { ok, value } = await request(`/tools?cursor=${encodeURIComponent(cursor)}`);
      if (!ok) {
        about.textContent = value.detail;
        return;
      }
      for (const tool of value.tools) {
        tools.set(tool.name, tool);
        choose.append(new Option(tool.name));
      }
      if (!form.childNodes.length) shown();
      if (!(cursor = value.next_cursor)) break;
    }
  })();
  return element('section', { className: 'bb busy' }, element('h2', { textContent: 'Call a tool' }), choose, about, form, out);
}

const failed = text => element('p', { className: 'failed', textContent: text });

/** place has a list show these parts; one that is there stays where the keyboard is. */
function place(list, parts) {
  for (const old of [...list.childNodes]) if (!parts.includes(old)) old.remove();
  parts.forEach((part, i) => list.children[i] === part || list.insertBefore(part, list.children[i] ?? null));
}

/** pendingPanel shows what waits for an answer; refresh() looks again, and ask() has the keyboard go there, too. */
export function pendingPanel() {
  const list = element('div', { id: 'pending' }), out = element('pre', { id: 'answered' });
  out.setAttribute('aria-live', 'polite');
  const look = element('button', { type: 'button', textContent: 'Look again' });
  const heading = element('h2', { textContent: 'Waits for an answer', tabIndex: -1 });
  const panel = element('section', { className: 'bb' }, heading, list, look, out);
  // reply answers what waits. wrong is told what is wrong with an answer that may be given again.
  const reply = async (path, body, wrong) => {
    out.className = '';
    out.textContent = '…';
    const answer = await request(path, body);
    if (answer.status === 400 && wrong) {
      out.textContent = '';
      return wrong(answer.value.detail);
    }
    show(out, answer);
    await panel.refresh();
    panel.classList.add('busy');
  };
  const forms = new Map(); // by what they answer: a form stays while that waits, with what was typed into it
  const form = async ([draw, id]) => {
    if (forms.has(id)) return forms.get(id);
    const part = await draw(id, reply).catch(e => failed(`${id} cannot be shown: ${e.message}`));
    if (forms.has(id)) return forms.get(id); // another look was faster
    if (part && part.className !== 'failed') forms.set(id, part); // else the next look asks again
    return part;
  };
  let looks = 0, seen = 0;
  panel.refresh = async () => {
    const mine = ++looks;
    const [asked, held] = await Promise.all([request('/elicitations'), request('/approvals')]);
    const waiting = [...(asked.value.elicitations ?? []).map(e => [elicitation, e.elicitation]), ...(held.value.approvals ?? []).map(a => [approval, a.approval])];
    const parts = (await Promise.all(waiting.map(form))).filter(Boolean);
    const whole = asked.ok && held.ok;
    if (mine < seen) return; // a later look has been answered before
    if (whole) seen = mine;
    const ids = new Set(waiting.map(([, id]) => id));
    if (mine === looks && whole) [...forms.keys()].filter(id => !ids.has(id)).forEach(id => forms.delete(id));
    // Where a list cannot be read, what is there stays.
    const stays = whole ? [] : [...list.children].filter(c => c.className !== 'failed' && !parts.includes(c));
    place(list, [...[asked, held].filter(a => !a.ok).map(a => failed(a.value.detail)), ...stays, ...parts]);
    if (!list.children.length) list.textContent = 'Nothing.';
    panel.classList.toggle('busy', list.children.length > 0);
  };
  panel.ask = async () => {
    await panel.refresh();
    heading.focus();
  };
  look.onclick = panel.refresh;
  panel.refresh();
  return panel;
}

async function elicitation(id, reply) {
  const path = `/elicitations/${id}`, { ok, status, value } = await request(path);
  if (status === 404) return null; // answered meanwhile
  if (!ok) throw new Error(value.detail);
  const asked = Object.entries(value.requests).map(([key, q]) => [key, q, fields(q.requested_schema)]);
  const form = element('form', {}, element('strong', { textContent: `${named(value)} asks` }));
  const problem = element('p', { className: 'failed' }), wrong = text => (problem.textContent = text);
  const send = responses => once(form, () => (wrong(''), reply(path, { responses }, wrong)));
  for (const [, q, f] of asked) form.append(element('p', { textContent: visible(q.message) }), ...f.labels);
  const none = (action, text) => element('button', { type: 'button', textContent: text, onclick: () => send(Object.fromEntries(asked.map(([key]) => [key, { action }]))) });
  form.append(problem, element('button', { textContent: 'Answer' }), none('decline', 'Decline'), none('cancel', 'Cancel'));
  form.onsubmit = event => {
    event.preventDefault();
    try {
      send(Object.fromEntries(asked.map(([key, , f]) => [key, { action: 'accept', content: f.value() }])));
    } catch (e) {
      wrong(e.message);
    }
  };
  return form;
}

async function approval(id, reply) {
  const path = `/approvals/${id}`, { ok, status, value } = await request(path);
  if (status === 404) return null;
  if (!ok) throw new Error(value.detail);
  const part = element('div', { className: 'waiting' });
  const button = (textContent, approve) => element('button', { textContent, onclick: () => once(part, () => reply(path, { approve })) });
  part.append(element('strong', { textContent: `${visible(value.principal)} wants to call ${named(value)} with` }),
    element('pre', { textContent: value.shown }), button('Agree', true), button('Refuse', false));
  return part;
}
