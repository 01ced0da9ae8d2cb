"use strict";
// The list of jobs: filtered, sorted, a hundred at a time; a job opens to what is known of it. The report and the live view
// have it in common. Texts are only ever put in as text.
const MARKS = { done: "✓", cached: "✓", running: "▸", retrying: "↻", waiting: "·", open: "·", failed: "✗", skipped: "–", lost: "!", "left out": "–", reserve: "–", "ruled out": "–" };
const PAGE = 100;
const SVG = "http://www.w3.org/2000/svg";
const make = (tag, text, name) => {
  const element = document.createElement(tag);
  if (text !== undefined) element.textContent = text;
  if (name) element.className = name;
  return element;
};
const draw = (tag, attributes, text) => {
  const element = document.createElementNS(SVG, tag);
  Object.entries(attributes).forEach(([name, value]) => element.setAttribute(name, value));
  if (text !== undefined) element.textContent = text;
  return element;
};
const plural = (number, noun) => `${number.toLocaleString("en")} ${noun}${number === 1 ? "" : "s"}`;
const span = (seconds) => {
  if (seconds < 59.95) return `${seconds.toFixed(1)} s`;
  const whole = Math.round(seconds);
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${whole % 60} s`;
  return `${Math.floor(whole / 3600)} h ${Math.floor(whole / 60) % 60} min`;
};
const short = (number) => String(Number(number.toPrecision(4)));
const pill = (state) => {
  const element = make("span", undefined, `pill ${state.replace(" ", "-")}`);
  const mark = make("span", MARKS[state] ?? "·");
  mark.setAttribute("aria-hidden", "true");
  element.append(mark, make("span", ` ${state}`, "word"));
  return element;
};

// A curve over iterations: its ends are written at its edges, so that it can be read without an axis of its own.
const chart = ({ name, unit, at, values }) => {
  const [wide, high, left, top] = [300, 96, 4, 8];
  const figure = make("figure", undefined, "curve");
  figure.append(make("figcaption", unit ? `${name} (${unit})` : name));
  const [low, most] = [Math.min(...values), Math.max(...values)];
  const [first, last] = [at[0], at[at.length - 1]];
  const x = (value) => left + ((value - first) / (last - first || 1)) * (wide - 2 * left);
  const y = (value) => (most > low ? top + (1 - (value - low) / (most - low)) * (high - 2 * top) : high / 2);
  const words = `${name}: ${plural(values.length, "value")} from ${short(values[0])} at ${first} to ${short(values[values.length - 1])} at ${last}`;
  const image = draw("svg", { viewBox: `0 0 ${wide} ${high}`, role: "img", "aria-label": words });
  image.append(draw("path", { d: `M${left} ${high - top}H${wide - left}`, class: "axis" }));
  const path = values.map((value, index) => `${index ? "L" : "M"}${x(at[index]).toFixed(1)} ${y(value).toFixed(1)}`).join("");
  image.append(values.length > 1 ? draw("path", { d: path, class: "line" }) : draw("circle", { cx: x(first), cy: y(values[0]), r: 3, class: "dot" }));
  const ends = make("p", undefined, "ends");
  ends.append(make("span", `${first}: ${short(values[0])}`), make("span", `${last}: ${short(values[values.length - 1])}`));
  figure.append(image, ends);
  return figure;
};

const facts = (title, pairs) => {
  const part = make("section");
  part.append(make("h3", title));
  const list = make("dl");
  pairs.forEach(([name, value]) => list.append(make("dt", name), make("dd", value)));
  part.append(list);
  return part;
};

// Everything that is known of a job.
const describe = (detail) => {
  const box = make("div", undefined, "detail");
  if (detail.says) box.append(make("p", detail.says, "says"));
  const parts = make("div", undefined, "parts");
  [["Metrics", detail.metrics], ["Parameters", detail.params], ["Facts", detail.facts], ["How it came about", detail.made]]
    .filter(([, pairs]) => pairs?.length)
    .forEach(([title, pairs]) => parts.append(facts(title, pairs)));
  box.append(parts);
  if (detail.curves?.length) {
    const curves = make("div", undefined, "curves");
    curves.append(...detail.curves.filter((curve) => curve.values.length).map(chart));
    box.append(make("h3", "Curves"), curves);
  }
  const block = (title, text, label) => {
    const pre = make("pre", text);
    pre.tabIndex = 0;
    pre.setAttribute("role", "region");
    pre.setAttribute("aria-label", label ?? title);
    box.append(make("h3", title), pre);
  };
  if (detail.command) block("To reproduce it", detail.command);
  if (detail.log) block(detail.log.whole ? "Log" : "End of the log", detail.log.text, "Log");
  if (detail.log) box.append(make("p", detail.log.path, "note"));
  return box;
};

// `load(row)` answers what is known of a job, or the address of the page that has it.
const jobList = (section, data, load, kept = {}) => {
  const of = (name) => section.querySelector(`#${name}`);
  const [text, step, state, head, body] = ["filter", "step", "state", "jobs-head", "jobs-body"].map(of);
  let order = kept.order ?? null;
  let first = kept.first ?? 0;
  let open = kept.open ?? null;
  const label = (row) => (row.point ? `${data.steps[row.step]}/${row.point}` : data.steps[row.step]);
  const read = () => data.jobs.map(([step, point, state, key, seconds, cells, says]) => ({ step, point, state: data.states[state], key, seconds, cells: cells ?? [], says: says ?? "" }));
  let rows = read();
  const choose = (select, values, any) => {
    const before = select.value;
    select.replaceChildren(new Option(any, ""), ...values.map((value) => new Option(value, value)));
    select.value = values.includes(before) ? before : "";
  };
  const options = () => {
    choose(step, data.steps.filter((name, index) => data.steps.indexOf(name) === index), "every step");
    choose(state, data.states.filter((name) => rows.some((row) => row.state === name)), "any state");
  };
  const keys = {
    state: (row) => data.states.indexOf(row.state),
    job: (row) => label(row),
    time: (row) => row.seconds ?? -1,
  };
  const number = (cell) => (cell === undefined || cell === null || cell === "" ? -Infinity : Number(cell));
  const value = (name) => keys[name] ?? ((row) => number(row.cells[Number(name)]));
  const heading = (name, words, kind) => {
    const cell = make("th", undefined, kind);
    cell.scope = "col";
    const button = make("button", words);
    button.type = "button";
    button.dataset.sort = name;
    if (order?.name === name) cell.setAttribute("aria-sort", order.down ? "descending" : "ascending");
    button.addEventListener("click", () => {
      order = { name, down: order?.name === name && !order.down };
      first = 0;
      show();
      head.querySelector(`[data-sort="${name}"]`).focus();
    });
    cell.append(button);
    return cell;
  };
  // What is open stays as it is when the list is drawn again.
  let before = null;
  const details = (row, columns) => {
    if (before?.key === row.key && before.state === row.state) {
      before.line.firstChild.colSpan = columns + 3;
      return before.line;
    }
    const line = make("tr", undefined, "opened");
    const cell = make("td");
    cell.colSpan = columns + 3;
    line.append(cell);
    before = { key: row.key, state: row.state, line };
    Promise.resolve(load(row)).then((detail) => {
      if (typeof detail === "string") {
        const link = make("a", "its parameters, metrics, curves and log");
        link.href = detail;
        cell.append(link);
      } else {
        cell.append(describe({ says: row.says, ...detail }));
      }
    });
    return line;
  };
  const show = () => {
    const words = text.value.toLowerCase().split(/\s+/).filter(Boolean);
    const found = rows.filter((row) => (!step.value || data.steps[row.step] === step.value) && (!state.value || row.state === state.value)
      && words.every((word) => label(row).toLowerCase().includes(word) || row.key.startsWith(word)));
    if (order) {
      const of = value(order.name);
      const compare = (a, b) => {
        const [left, right] = [of(a), of(b)];
        return typeof left === "number" ? left - right || 0 : left.localeCompare(right, undefined, { numeric: true });
      };
      found.sort(order.down ? (a, b) => compare(b, a) : compare);
    }
    first = Math.max(0, Math.min(first, Math.floor((found.length - 1) / PAGE) * PAGE));
    const shown = found.slice(first, first + PAGE);
    const columns = data.columns.map((name, index) => ({ name, index })).filter(({ index }) => found.some((row) => row.cells[index]));
    head.replaceChildren(heading("state", "State"), heading("job", "Job"),
      ...columns.map(({ name, index }, place) => heading(String(index), name, place ? "number extra" : "number")), heading("time", "Time", "number"));
    const focused = document.activeElement?.dataset?.key;
    body.replaceChildren(...shown.flatMap((row) => {
      const line = make("tr");
      const about = make("th");
      about.scope = "row";
      const button = make("button");
      // A long name breaks between its axes.
      label(row).split(/(?<=[,/])/).forEach((part) => button.append(part, make("wbr")));
      button.type = "button";
      button.dataset.key = row.key;
      button.setAttribute("aria-expanded", String(open === row.key));
      button.addEventListener("click", () => {
        open = open === row.key ? null : row.key;
        show();
        body.querySelector(`[data-key="${row.key}"]`)?.focus();
      });
      about.append(button);
      if (row.says) about.append(make("span", row.says, "why"));
      const status = make("td");
      status.append(pill(row.state));
      const cells = columns.map(({ index }, place) => make("td", row.cells[index] ?? "", place ? "number extra" : "number"));
      line.append(status, about, ...cells, make("td", row.seconds === null || row.seconds === undefined ? "" : span(row.seconds), "number"));
      return open === row.key ? [line, details(row, columns.length)] : [line];
    }));
    if (focused) body.querySelector(`[data-key="${focused}"]`)?.focus();
    const range = shown.length < found.length ? `, ${(first + 1).toLocaleString("en")} to ${(first + shown.length).toLocaleString("en")} shown` : "";
    of("shown").textContent = `${plural(found.length, "job")}${range}`;
    const pages = of("pages");
    pages.hidden = found.length <= PAGE;
    of("earlier").disabled = first === 0;
    of("later").disabled = first + PAGE >= found.length;
  };
  const turn = (by) => () => { first += by; show(); of("shown").scrollIntoView(); };
  [text, step, state].forEach((control) => control.addEventListener("input", () => { first = 0; show(); }));
  text.form.addEventListener("submit", (event) => event.preventDefault());
  of("earlier").addEventListener("click", turn(-PAGE));
  of("later").addEventListener("click", turn(PAGE));
  options();
  text.value = kept.text ?? "";
  if (kept.step) step.value = kept.step;
  if (kept.state) state.value = kept.state;
  show();
  return {
    // Shows the jobs of a step.
    choose: (name) => { step.value = name; state.value = ""; text.value = ""; first = 0; show(); },
    // Opens a job.
    open: (key) => { open = key; first = Math.max(0, Math.floor(rows.findIndex((row) => row.key === key) / PAGE) * PAGE); show(); },
    update: (next) => { data = next; rows = read(); options(); show(); },
    kept: () => ({ order, first, open, text: text.value, step: step.value, state: state.value }),
  };
};
// A step of a drawing leads to its jobs.
const linkSteps = (list) => document.querySelectorAll("a[data-step]").forEach((link) => link.addEventListener("click", () => list.choose(link.dataset.step)));

// A heading sorts its table; numbers by what they are, not by how they are written.
const sortable = (table, before, tell) => {
  const heads = [...table.tHead.rows[0].cells];
  const sort = (column, descending) => {
    heads.forEach((other) => other.removeAttribute("aria-sort"));
    heads[column].setAttribute("aria-sort", descending ? "descending" : "ascending");
    const value = (row) => {
      const cell = row.cells[column];
      return cell.dataset.value === undefined ? cell.textContent : Number(cell.dataset.value);
    };
    const compare = (a, b) => {
      const [left, right] = [value(a), value(b)];
      if (typeof left === "number" && typeof right === "number") return left - right;
      return String(left).localeCompare(String(right), undefined, { numeric: true });
    };
    table.tBodies[0].append(...[...table.tBodies[0].rows].sort((a, b) => (descending ? compare(b, a) : compare(a, b))));
    tell?.([column, descending]);
  };
  heads.forEach((head, column) => head.querySelector("button")?.addEventListener("click", () => sort(column, head.getAttribute("aria-sort") === "ascending")));
  if (before && heads[before[0]]) sort(...before);
};
