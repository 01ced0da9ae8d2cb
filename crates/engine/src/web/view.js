// One run, as it is now.
const RUN = { live: ["running", "▸"], stopping: ["retrying", "■"], interrupted: ["lost", "!"], failed: ["failed", "✗"], done: ["done", "✓"], killed: ["lost", "!"] };
const data = JSON.parse(document.getElementById("data").textContent);
const of = (name) => document.getElementById(name);
const base = `/runs/${encodeURIComponent(data.run)}`;
of("acts").hidden = !TOKEN;
// Everything that was carried out stays there.
const told = [];
const say = (text) => {
  told.push(text);
  of("acted").replaceChildren(...told.flatMap((line, index) => (index ? [make("br"), line] : [line])));
};
// States of jobs that have no result and run again only if they are asked to.
const AGAIN = ["failed", "stopped", "lost", "skipped"];
const acts = (row) => {
  if (!TOKEN) return [];
  if (data.live) return ["running", "retrying", "waiting"].includes(row.state) ? [actButton("Stop", `Stop ${row.label}? The run continues.`, `${base}/jobs/${row.key}/stop`, say)] : [];
  return AGAIN.includes(row.state) ? [actButton("Run again", `Run ${row.label} again, with the jobs that it needs?`, `${base}/jobs/${row.key}`, say, true)] : [];
};
// A form that adds a tag or a note to a job's record, and buttons that remove them.
const noting = (row, { tags = [], notes = [] }) => {
  const part = make("section", undefined, "command");
  const change = async (body) => {
    const { command, error } = await act(`${base}/jobs/${row.key}/note`, body);
    say(command ? `Carried out: ${command}` : `Not carried out: ${error}`);
    if (!command) return;
    const line = data.jobs[row.index];
    line[7] ??= null;
    line[8] = (await (await fetch(`${base}/jobs/${row.key}`)).json()).tags ?? [];
    list.reload(row.key);
  };
  const form = make("form", undefined, "choices");
  const field = (label, name) => {
    const box = make("label", `${label} `);
    const input = Object.assign(make("input"), { autocomplete: "off", name });
    box.append(input);
    form.append(box);
    return input;
  };
  const [tag, note] = [field("Tag", "tag"), field("Note", "note")];
  const add = make("button", "Add", "plain");
  add.type = "submit";
  form.append(add);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (tag.value.trim()) await change({ tag: tag.value.trim() });
    if (note.value.trim()) await change({ note: note.value });
  });
  const buttons = [...tags.map((name) => plainButton(`Remove #${name}`, () => change({ untag: name }))),
    ...notes.map(([at], index) => plainButton(`Remove note ${index + 1}`, () => change({ remove: index + 1 }), `Remove note ${index + 1}, of ${at}`))];
  part.append(form, ...buttons.flatMap((button) => [button, " "]));
  return part;
};
// The card of the running job that is open, beside those above the list.
let opened = null;
const openCard = (row) => {
  opened = { key: row.key, card: { ...newCard(row), heading: null, stop: [] } };
  opened.card.element.className = "live";
  showOpened();
  return opened.card.element;
};
const showOpened = () => {
  const job = opened && data.rest.running.find(({ key }) => key === opened.key);
  if (job) showCard(opened.card, job);
};
const load = async (row) => {
  const isLive = ["running", "retrying"].includes(row.state);
  const answer = await fetch(`${base}/jobs/${row.key}`);
  const detail = answer.ok ? await answer.json() : {};
  const explain = TOKEN && detail.why ? async () => {
    const { text, error } = await act(`${base}/jobs/${row.key}/explain`);
    return text ?? error;
  } : null;
  return { ...detail, isLive, live: row.state === "running" ? openCard(row) : null, acts: [...acts(row), ...(TOKEN && ["done", "cached"].includes(row.state) ? [noting(row, detail)] : [])], explain, wholeLog: async () => {
    const found = await fetch(`${base}/jobs/${row.key}/log`);
    return found.ok ? found.json() : null;
  } };
};
data.pickable = true;
data.compare = ([first, second]) => ({ href: `/compare/jobs?${new URLSearchParams({ jobs: `${first.key},${second.key}`, run: data.run })}` });
const list = jobList(of("jobs"), data, load);
// Curves come as binary columns, of at most so many jobs at once.
const MOST_AT_ONCE = 128;
const MOST_REQUESTS = 2;
const ranges = (indices) => indices.reduce((parts, index) => {
  const last = parts.at(-1);
  if (last && last[1] === index - 1) last[1] = index;
  else parts.push([index, index]);
  return parts;
}, []).map(([first, last]) => (first === last ? first : `${first}-${last}`)).join(",");
// A curve of `most` points is thinned out.
const columnsOf = (buffer, keys, most) => {
  const [view, found] = [new DataView(buffer), new Map()];
  for (let at = 0; at < buffer.byteLength;) {
    const [index, count] = [view.getUint32(at, true), view.getUint32(at + 4, true)];
    found.set(keys.get(index), { x: new Float64Array(buffer, at + 8, count), y: new Float64Array(buffer, at + 8 + 8 * count, count), isThinned: count >= most });
    at += 8 + 16 * count;
  }
  return found;
};
const source = {
  names: () => Object.entries({ ...Object.fromEntries(data.rest.running.flatMap(({ curves }) => curves.map(({ name }) => [name, ""]))), ...data.rest.series }),
  read: async (rows, { y, x, points, mean, from, to }, got) => {
    const parts = [];
    for (let first = 0; first < rows.length; first += MOST_AT_ONCE) parts.push(rows.slice(first, first + MOST_AT_ONCE));
    const request = async (part) => {
      const query = new URLSearchParams({ jobs: ranges(part.map(({ index }) => index).sort((a, b) => a - b)), y, x, points, mean, ...(from === undefined ? {} : { from, to }) });
      const answer = await fetch(`${base}/curves?${query}`);
      if (!answer.ok) throw new Error(await answer.text());
      return columnsOf(await answer.arrayBuffer(), new Map(part.map(({ index, key }) => [index, key])), mean ? points : Infinity);
    };
    // The server reads some parts while the page draws one.
    const ask = (part) => {
      const answer = request(part);
      // A failure is that of the first part that fails.
      answer.catch(() => {});
      return answer;
    };
    const answers = parts.slice(0, MOST_REQUESTS).map(ask);
    for (let index = 0; index < parts.length; index += 1) {
      const found = await answers[index];
      if (index + MOST_REQUESTS < parts.length) answers.push(ask(parts[index + MOST_REQUESTS]));
      if (!got(found)) return;
    }
  },
  // Running jobs have the steps of their latest values only.
  running: (name, x) => new Map(x ? [] : data.rest.running.flatMap(({ key, curves }) => curves.filter((curve) => curve.name === name).map(({ points }) => [key, { x: points.map(([step]) => step), y: points.map(([, value]) => value) }]))),
};
// What has the same parts is left as it is: who zooms is not disturbed.
const refill = (element, parts) => {
  if (parts.length !== element.childNodes.length || parts.some((part, index) => part !== element.childNodes[index])) element.replaceChildren(...parts);
};
// The cards of running jobs, each with its charts by name.
let cards = new Map();
const newCard = ({ label, key }) => {
  const bar = make("progress");
  return { element: make("article", undefined, "card"), heading: make("h3", label), bar, says: make("p", undefined, "note"), curves: make("div", undefined, "curves"), charts: new Map(), stop: acts({ label, key, state: "running" }) };
};
const showCard = (known, job) => {
  if (job.total) {
    Object.assign(known.bar, { max: job.total, value: job.done });
    known.bar.setAttribute("aria-label", `${job.label}: ${job.done} of ${job.total}`);
  }
  known.says.textContent = job.says;
  refill(known.curves, job.curves.map(({ name, says, points }) => {
    if (points.length < 2) return make("p", says, "note");
    const lines = [{ name, at: points.map(([step]) => step), values: points.map(([, value]) => value) }];
    if (known.charts.has(name)) known.charts.get(name).update(says, lines);
    else known.charts.set(name, jobCurve(says, lines, name));
    return known.charts.get(name).figure;
  }));
  refill(known.element, [...(known.heading ? [known.heading] : []), ...(job.total ? [known.bar] : []), known.says, ...known.stop, known.curves]);
};
const card = (job) => {
  const known = cards.get(job.label) ?? newCard(job);
  showCard(known, job);
  return [job.label, known];
};
// A line of the list has the progress of its job and the latest value.
const progressOf = (running) => new Map(running.map(({ key, says, curves }) => [key, [says, ...curves.slice(0, 1).map((curve) => curve.says)].join(" · ")]));
const again = TOKEN ? [actButton("Run what has no result", "Run the jobs of this run that have no result again?", base, say, true)] : [];
// The axes by which an ended run is extended, and the next seed as a proposal.
const extension = () => {
  const [axis, values, run, plan] = ["extend-axis", "extend-values", "extend-run", "extend-plan"].map(of);
  const found = new Map();
  list.rows().forEach((row) => row.axes.forEach((value, name) => {
    const id = JSON.stringify([row.step.replace(/^.*:/, ""), name]);
    found.set(id, [...(found.get(id) ?? []), value]);
  }));
  const show = (text, ready) => {
    plan.textContent = text;
    plan.hidden = !text;
    run.hidden = !ready;
  };
  const propose = () => {
    const numbers = (found.get(axis.value) ?? []).map(Number);
    const isSeed = axis.value && data.seeds.includes(JSON.parse(axis.value)[1]) && numbers.every(Number.isInteger);
    values.value = isSeed ? String(Math.max(...numbers) + 1) : "";
    show("", false);
  };
  const send = (go) => {
    const [step, name] = JSON.parse(axis.value);
    return act(`${base}/extend`, { step, axis: name, values: values.value, go });
  };
  const names = [...found.keys()].map((id) => JSON.parse(id));
  // Seeds first: they are extended most often.
  const rank = ([, name]) => (data.seeds.includes(name) ? 0 : 1);
  names.sort((one, other) => rank(one) - rank(other));
  const several = new Set(names.map(([step]) => step)).size > 1;
  fill(axis, names.map(([step, name]) => [JSON.stringify([step, name]), several ? `${name} of ${step}` : name]));
  axis.addEventListener("input", propose);
  values.addEventListener("input", () => show("", false));
  axis.form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const { command, text, error } = await send(false);
    show(command ? `$ ${command}\n\n${text}` : error, Boolean(command));
  });
  run.addEventListener("click", async () => {
    const { command, error } = await send(true);
    say(command ? `Carried out: ${command}` : `Not carried out: ${error}`);
    show("", false);
  });
  propose();
  return found.size > 0;
};
const extensible = TOKEN ? extension() : false;
let steps = "";
const showRest = (rest) => {
  const [kind, mark] = RUN[rest.state];
  const sign = make("span", `${mark} `);
  sign.setAttribute("aria-hidden", "true");
  of("state").className = `pill ${kind}`;
  of("state").replaceChildren(sign, rest.state);
  of("how").textContent = rest.how;
  of("left").textContent = rest.left ?? "";
  if (of("words").textContent !== rest.words) of("words").textContent = rest.words;
  const bar = draw("svg", { viewBox: "0 0 1000 8", preserveAspectRatio: "none", class: "bar", role: "img", "aria-label": rest.words });
  bar.append(...rest.bar.map(([name, from, to]) => draw("rect", { class: name, x: from, y: 0, width: to - from, height: 8 })));
  of("bar").replaceChildren(bar);
  of("extend").hidden = !extensible || ["live", "stopping"].includes(rest.state);
  refill(of("again"), ["failed", "interrupted", "killed"].includes(rest.state) ? again : []);
  // Drawn by the server, every text in it escaped.
  if (rest.steps !== steps) {
    steps = rest.steps;
    const focused = document.activeElement?.dataset?.step;
    of("steps-body").innerHTML = steps;
    linkSteps(list);
    if (focused) document.querySelector(`a[data-step="${CSS.escape(focused)}"]`)?.focus();
  }
  of("running").hidden = rest.running.length === 0;
  cards = new Map(rest.running.map(card));
  list.progress(progressOf(rest.running));
  showOpened();
  refill(of("running-body"), [...cards.values()].map(({ element }) => element));
  if (rest.state !== data.said) {
    if (data.said) of("news").textContent = `the run is ${rest.state}: ${rest.words}`;
    data.said = rest.state;
  }
};
showRest(data.rest);
const overlay = curveOverlay(of("overlay"), data, list, source);
linkedPlots(of("plots"), data, list);
document.addEventListener("job", ({ detail }) => list.find(detail));
if (data.jobs.some((job) => job[3] === location.hash.slice(1))) {
  list.open(location.hash.slice(1));
}
const events = new EventSource(`${base}/events`);
// What has ended stays as it is: there is nothing to ask again for.
events.addEventListener("end", () => events.close());
events.addEventListener("message", (event) => {
  const { columns, shown, left, jobs, rest } = JSON.parse(event.data);
  if (columns) Object.assign(data, { columns, shown, left });
  if (rest) {
    data.rest = rest;
    data.live = ["live", "stopping"].includes(rest.state);
    showRest(rest);
  }
  jobs.forEach(([index, line]) => { data.jobs[index] = JSON.parse(line); });
  if (columns || jobs.length) list.update(data);
  else overlay.update();
});
