// Details of a job: its values, curves and log.
// So many pairs of a kind are shown without scrolling.
const MOST_FACTS = 24;
const region = (element, label) => {
  element.tabIndex = 0;
  element.setAttribute("role", "region");
  element.setAttribute("aria-label", label);
  return element;
};
// A text that breaks between the parts of a name.
const broken = (element, text) => {
  text.split(/(?<=[,/._])/).forEach((part) => element.append(part, make("wbr")));
  return element;
};
const facts = (title, pairs) => {
  const part = make("section");
  part.append(make("h3", title));
  const list = make("dl");
  pairs.forEach(([name, value]) => list.append(broken(make("dt"), name), make("dd", value)));
  if (pairs.length <= MOST_FACTS) {
    part.append(list);
  } else {
    const scroll = region(make("div", undefined, "long"), title);
    scroll.append(list);
    part.append(scroll);
  }
  return part;
};

// The end of a log, in which one can search; `whole`, if there is one, fetches all of it. While the job runs, the log follows it.
const MOST_HITS = 1000;
const FOLLOWING = 2000;
const logBlock = (log, whole, isLive) => {
  const part = make("section", undefined, "log");
  const title = make("h3", log.whole ? "Log" : "End of the log");
  const bar = make("p", undefined, "search");
  const word = make("input");
  Object.assign(word, { type: "search", placeholder: "Search the log", autocomplete: "off", spellcheck: false });
  word.setAttribute("aria-label", "Search the log");
  const found = make("span", "", "note");
  found.setAttribute("role", "status");
  const pre = region(make("pre", log.text), "Log");
  let lines = log.text.split("\n");
  const show = () => {
    if (!word.value) {
      pre.textContent = lines.join("\n");
      found.textContent = "";
      return;
    }
    const wanted = new RegExp(word.value.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"), "i");
    const hits = lines.map((line, index) => [line, index + 1]).filter(([line]) => wanted.test(line));
    found.textContent = `${hits.length.toLocaleString("en")} of ${plural(lines.length, "line")}${hits.length > MOST_HITS ? `, the first ${MOST_HITS} shown` : ""}`;
    pre.replaceChildren(...hits.slice(0, MOST_HITS).flatMap(([line, number]) => {
      const [hit] = line.match(wanted);
      const at = line.search(wanted);
      return [`${number}: ${line.slice(0, at)}`, make("mark", hit), `${line.slice(at + hit.length)}\n`];
    }));
  };
  word.addEventListener("input", show);
  bar.append(word);
  const path = make("p", log.path, "note");
  const toEnd = () => { pre.scrollTop = pre.scrollHeight; };
  // Whoever has scrolled up, selects or searches is not disturbed.
  const read = async () => {
    const answer = await whole();
    if (!answer) return;
    const isAtEnd = pre.scrollTop + pre.clientHeight >= pre.scrollHeight - 4;
    lines = answer.text.split("\n");
    title.textContent = answer.whole ? "Log" : "End of the log";
    path.textContent = answer.path;
    show();
    if (isAtEnd && !word.value) toEnd();
  };
  if (whole && isLive) {
    const timer = setInterval(() => {
      if (!pre.isConnected) clearInterval(timer);
      else if (!word.value && getSelection().isCollapsed) read().catch(() => {});
    }, FOLLOWING);
  } else if (whole) {
    bar.append(plainButton("Whole log, as it is now", read));
  }
  bar.append(found);
  part.append(title, bar, pre, path);
  requestAnimationFrame(toEnd);
  return part;
};

// The lines of a log about the failure: the last traceback or error with the lines after it.
const FAILURE = /^(Traceback \(most recent call last\)|thread '.*' .*panicked)|\b(error|exception|fatal|out of memory|killed)\b/i;
const MAX_FAILURE = 20;
const failureOf = (log) => {
  const lines = log?.text.split("\n") ?? [];
  const trace = lines.findLastIndex((line) => /^(Traceback \(|thread '.*panicked)/.test(line));
  const at = trace >= 0 ? trace : lines.findLastIndex((line) => FAILURE.test(line));
  if (at < 0) return null;
  // Of a long traceback the end says the most.
  return lines.slice(at).slice(trace >= 0 ? -MAX_FAILURE : 0, trace >= 0 ? undefined : MAX_FAILURE).join("\n");
};
const command = (title, text) => {
  const part = make("section", undefined, "command");
  const pre = region(make("pre", text), title);
  const heading = make("h3", `${title} `);
  const copied = make("span", "", "note");
  copied.setAttribute("role", "status");
  heading.append(plainButton("Copy", async () => {
    try {
      await navigator.clipboard.writeText(text);
      copied.textContent = " copied";
    } catch {
      // Without a clipboard, it is selected, and can be copied by keyboard.
      getSelection().selectAllChildren(pre);
      copied.textContent = " selected";
    }
  }, `Copy: ${title}`), copied);
  part.append(heading, pre);
  return part;
};
// A text that is read when it is asked for.
const onDemand = (title, text) => {
  const part = make("section", undefined, "command");
  const button = plainButton(`Show: ${title}`, async () => {
    button.disabled = true;
    const pre = region(make("pre", await text()), title);
    part.replaceChildren(make("h3", title), pre);
    pre.focus();
  });
  part.append(button);
  return part;
};
// The axes in which a job differs from the others of its step, with their values there.
const MAX_VALUES_LISTED = 6;
const differences = (row, rows) => {
  const others = rows.filter((other) => other !== row && other.step === row.step);
  return [...row.axes].map(([name, value]) => {
    const found = [...new Set(others.map((other) => other.axes.get(name)).filter((other) => other !== undefined && other !== value))];
    const same = others.filter((other) => other.axes.get(name) === value).length;
    const list = `${found.slice(0, MAX_VALUES_LISTED).join(", ")}${found.length > MAX_VALUES_LISTED ? ", …" : ""}`;
    return found.length ? [name, `${value}${same ? `, as ${plural(same, "other")}` : ""}; elsewhere ${list}`] : null;
  }).filter(Boolean);
};

// The series that are drawn, those of the first columns first. A single value of a job with a result is one of its metrics.
const drawnCurves = (curves, row, columns) => {
  const places = new Map(columns.filter(({ kind }) => kind === "metric").map(({ name }, place) => [name, place]));
  const place = ({ name }) => places.get(name) ?? places.size;
  const least = ["done", "cached"].includes(row.state) ? 2 : 1;
  return curves.filter(({ values }) => values.length >= least).sort((one, other) => place(one) - place(other));
};
// Everything that is known of a job; `row` is its row, `rows` are all, with their columns.
const describe = (detail, row, rows, columns) => {
  const box = make("div", undefined, "detail");
  if (detail.says) box.append(make("p", detail.says, "says"));
  const failure = ["failed", "retrying", "lost"].includes(row.state) ? failureOf(detail.log) : null;
  if (failure) box.append(make("h3", "Failure"), region(make("pre", failure, "failure"), "Failure"));
  box.append(...(detail.acts ?? []));
  if (detail.live) box.append(detail.live);
  const parts = make("div", undefined, "parts");
  if (detail.tags?.length) box.append(make("p", `Tags: ${detail.tags.join(", ")}`));
  (detail.notes ?? []).forEach(([at, text]) => box.append(make("h3", `Note of ${at}`), region(make("pre", text, "written"), `Note of ${at}`)));
  // A job without a record has the values of its axes at least.
  const params = detail.params?.length ? detail.params : [...row.axes].map(([name, value]) => [name, valueText(value)]);
  [["Metrics", detail.metrics], ["Among the jobs of its step", differences(row, rows)], ["Parameters", params], ["Facts", detail.facts], ["How it came about", detail.made]]
    .filter(([, pairs]) => pairs?.length)
    .forEach(([title, pairs]) => parts.append(facts(title, pairs)));
  box.append(parts);
  const drawn = drawnCurves(detail.curves ?? [], row, columns);
  if (drawn.length) {
    const curves = make("div", undefined, "curves");
    curves.append(...drawn.map((curve) => jobCurve(unitOf(curve), [curve]).figure));
    box.append(make("h3", "Curves"), curves);
  }
  if (detail.changes) box.append(make("h3", "Changes of the code"), region(make("pre", detail.changes), "Changes of the code"));
  if (detail.command) box.append(command(["done", "cached"].includes(row.state) ? "The command that made it" : "To run it", detail.command));
  if (detail.why) box.append(command("To see why it runs", detail.why));
  if (detail.explain) box.append(onDemand("Why it runs", detail.explain));
  const log = detail.log ?? (detail.isLive ? { path: "", text: "", whole: true } : null);
  if (log) box.append(logBlock(log, detail.wholeLog, detail.isLive));
  return box;
};
