// The list of jobs: filtered, grouped, sorted, a hundred at a time; a job opens to what is known of it. The report and the live view
// have it in common. In print it has its jobs up to a limit, and says how many these are.
const PAGE = 100;
const MAX_PRINTED = 1000;
// While a run goes on, jobs that need attention come first.
// Names of jobs that are longer than so many letters leave out the axes with one value.
const LONG_NAME = 60;
// Headings of so few letters stay on one line.
const SHORT_HEADING = 12;
// A longer value of an axis may be cut off, and has a tooltip.
const LONG_VALUE = 24;
const URGENT = ["failed", "running", "retrying"];
const urgency = ({ state }) => (URGENT.includes(state) ? URGENT.indexOf(state) : URGENT.length);
const FIXED = { state: { of: null }, job: { of: (row) => row.label } };
// Jobs by their steps and then by the values of their axes.
const byName = (columns, down) => {
  const orders = [order(({ step }) => step, down), ...columns.filter(({ kind }) => kind === "axis").map(({ of }) => order(of, down))];
  return (one, other) => orders.map((compare) => compare(one, other)).find((sign) => sign) ?? 0;
};

// The part of the view that the address has.
const viewOfAddress = () => {
  const asked = readAddress();
  const sort = asked.text("sort");
  const widths = asked.list("widths").map((part) => [part.slice(part.indexOf(":") + 1), widthOf(part.slice(0, part.indexOf(":")))]);
  return {
    text: asked.text("filter"), step: asked.text("step"), state: asked.text("state"), group: asked.text("group"),
    order: sort ? { id: sort.replace(/^-/, ""), down: sort.startsWith("-") } : null,
    chosen: asked.has("columns") ? asked.list("columns") : null, pins: asked.list("pins"),
    widths: new Map(widths.filter(([, width]) => width !== null)), picks: new Set(asked.list("jobs")),
    first: Math.max(0, Math.floor((numeric(asked.text("from")) ?? 1) / PAGE) * PAGE), open: asked.text("open") || null, groups: asked.list("opened"),
  };
};

// `load(row)` answers what is known of a job, or the address of the page that has it.
const jobList = (section, data, load, kept = {}) => {
  const of = (name) => section.querySelector(`#${name}`);
  const [text, step, state, group, head, body] = ["filter", "step", "state", "group", "jobs-head", "jobs-body"].map(of);
  const view = viewOfAddress();
  let first = kept.first ?? view.first;
  let printing = false;
  let open = kept.open ?? view.open;
  const openGroups = new Set(kept.groups ?? view.groups);
  const watchers = [];
  let [rows, columns, byId, nameOf] = [[], [], new Map(), ({ label }) => label];
  view.shown = () => (view.chosen ?? columns.filter((column) => column.first).map(({ id }) => id)).filter((id) => byId.has(id));
  const save = () => writeAddress({
    filter: text.value, step: step.value, state: state.value, group: group.value, sort: view.order ? `${view.order.down ? "-" : ""}${view.order.id}` : "",
    columns: view.chosen?.length === 0 ? "," : view.chosen, pins: view.pins, widths: [...view.widths].map(([id, width]) => `${width}:${id}`),
    // A server refuses an address that is too long: more jobs than are drawn are not in it, nor are more groups than a page has.
    jobs: view.picks.size <= 1000 ? [...view.picks] : [], opened: group.value && openGroups.size <= PAGE ? [...openGroups] : [],
    open: open ?? "", from: first ? String(first + 1) : "",
  });
  const chooser = columnChooser(of("columns"), view, () => show());
  const read = () => {
    rows = readRows(data);
    columns = readColumns(data, rows);
    byId = new Map(columns.map((column) => [column.id, column]));
    const isConstant = new Set(columns.filter(({ kind, first, of }) => kind === "axis" && !first && rows.every((row) => of(row) !== null)).map(({ name }) => name));
    const isLong = rows.some(({ label }) => label.length > LONG_NAME);
    nameOf = ({ step, axes, label }) => {
      if (!isLong) return label;
      const point = [...axes].filter(([name]) => !isConstant.has(name)).map(([name, value]) => `${name}=${value}`).join(",");
      return point ? `${step}/${point}` : step;
    };
    FIXED.state.of = (row) => data.states.indexOf(row.state);
    const values = (names) => names.map((name) => [name, name]);
    fill(step, [["", "every step"], ...values([...new Set(data.steps)])]);
    fill(state, [["", "any state"], ...values(data.states.filter((name) => name === (state.value || view.state) || rows.some((row) => row.state === name)))]);
    const axes = columns.filter(({ kind }) => kind === "axis");
    const seeded = axes.some(({ name }) => data.seeds.includes(name));
    fill(group, [["", "no groups"], ...(seeded ? [[CONFIGURATION, "by configuration"]] : []), ...axes.map(({ name }) => [name, `by ${name}`])]);
    chooser.update(columns, data.left);
  };
  const heading = (id, words, kind, title) => {
    const cell = make("th", undefined, kind);
    if (title && title !== words) cell.title = title;
    cell.scope = "col";
    const button = make("button", words, words.length <= SHORT_HEADING ? "short" : undefined);
    button.type = "button";
    button.dataset.sort = id;
    if (view.order?.id === id) cell.setAttribute("aria-sort", view.order.down ? "descending" : "ascending");
    button.addEventListener("click", () => {
      // Up, down, and as it was.
      view.order = view.order?.id !== id ? { id, down: false } : view.order.down ? null : { id, down: true };
      first = 0;
      show();
    });
    cell.append(button);
    if (byId.has(id)) cell.append(widthHandle(cell, id));
    return cell;
  };
  // Dragging the edge of a heading makes its column wider; the chooser does so by keyboard.
  const widthHandle = (cell, id) => {
    const handle = make("span", undefined, "handle");
    handle.setAttribute("aria-hidden", "true");
    handle.addEventListener("pointerdown", (event) => {
      event.preventDefault();
      handle.setPointerCapture(event.pointerId);
      const [from, width] = [event.clientX, cell.offsetWidth];
      const moved = ({ clientX }) => {
        view.widths.set(id, widthOf(String(Math.round(width + clientX - from))) ?? WIDTHS[0]);
        cell.style.minWidth = `${view.widths.get(id)}px`;
      };
      handle.addEventListener("pointermove", moved);
      handle.addEventListener("pointerup", () => { handle.removeEventListener("pointermove", moved); show(); }, { once: true });
    });
    return handle;
  };
  // What is open stays as it is when the list is drawn again.
  let before = null;
  const details = (row, width) => {
    if (before?.key === row.key && before.state === row.state) {
      before.line.firstChild.colSpan = width;
      return before.line;
    }
    const line = make("tr", undefined, "opened");
    const cell = make("td");
    cell.colSpan = width;
    line.append(cell);
    before = { key: row.key, state: row.state, line };
    Promise.resolve(load(row)).then((detail) => {
      if (typeof detail === "string") {
        const link = make("a", "its parameters, metrics, curves and log");
        link.href = detail;
        cell.append(link);
      } else {
        cell.append(describe({ says: row.says, ...detail }, row, rows, columns));
      }
    });
    return line;
  };
  const sized = (cell, id) => {
    const width = view.widths.get(id);
    if (width) Object.assign(cell.style, { minWidth: `${width}px`, maxWidth: `${width}px`, overflowWrap: "anywhere", whiteSpace: "normal" });
    if (view.pins.includes(id)) cell.classList.add("pinned");
    cell.dataset.column = id;
    if (id.startsWith("axis:") && cell.tagName === "TD" && cell.textContent.length > LONG_VALUE) cell.title = cell.textContent;
    return cell;
  };
  const cellOf = (column, row) => {
    const value = column.of(row);
    const cell = sized(make("td", value === null ? "" : column.text(value), kindOf(column)), column.id);
    if (column.kind === "metric" && value !== null) cell.title = String(value);
    return cell;
  };
  // Without a choice of columns, a narrow window has room for one metric and the column of the order.
  const isMain = ({ id, kind }) => view.chosen !== null || view.pins.includes(id) || view.widths.has(id) || kind === "time" || id === view.order?.id || id === view.shown().find((other) => byId.get(other).kind === "metric");
  const kindOf = (column) => `${column.kind === "axis" ? "axis" : "number"}${isMain(column) ? "" : " extra"}`;
  const picker = (rowsOf, label) => {
    const box = make("input");
    const picked = rowsOf.filter(({ key }) => view.picks.has(key)).length;
    Object.assign(box, { type: "checkbox", checked: picked === rowsOf.length, indeterminate: picked > 0 && picked < rowsOf.length });
    box.setAttribute("aria-label", `Draw the curves of ${label}`);
    box.dataset.pick = label;
    box.addEventListener("change", () => {
      rowsOf.forEach(({ key }) => view.picks[box.checked ? "add" : "delete"](key));
      show();
    });
    return box;
  };
  const lineOf = (row, shownColumns, inGroup) => {
    const line = make("tr", undefined, inGroup ? "member" : undefined);
    const about = make("th");
    about.scope = "row";
    const button = broken(make("button"), nameOf(row));
    if (row.label.length > LONG_NAME) button.title = row.label;
    button.type = "button";
    button.dataset.key = row.key;
    button.setAttribute("aria-expanded", String(open === row.key));
    button.addEventListener("click", () => {
      open = open === row.key ? null : row.key;
      show();
    });
    about.append(button);
    const status = make("td");
    const state = pill(row.state);
    // Most jobs of a live run wait for the same: their reason is a tooltip, and in the open job.
    if (row.says && row.state === "waiting") state.title = row.says;
    else if (row.says) about.append(Object.assign(make("span", row.says, "why reason"), { title: row.says }));
    if (row.state === "running") about.append(make("span", data.progress?.get(row.key) ?? "", "why progress"));
    if (row.tags.length) about.append(make("span", row.tags.map((tag) => `#${tag}`).join(" "), "why tags"));
    if (data.pickable) status.append(picker([row], row.label), " ");
    status.append(state);
    line.append(status, about, ...shownColumns.map((column) => cellOf(column, row)));
    return open === row.key ? [line, details(row, shownColumns.length + 2)] : [line];
  };
  const groupLine = (found, shownColumns) => {
    const line = make("tr", undefined, "group");
    const about = make("th");
    about.scope = "row";
    const button = broken(make("button"), nameOf(found));
    if (found.label.length > LONG_NAME) button.title = found.label;
    button.type = "button";
    button.dataset.group = found.label;
    button.setAttribute("aria-expanded", String(openGroups.has(found.label)));
    button.addEventListener("click", () => {
      openGroups[openGroups.has(found.label) ? "delete" : "add"](found.label);
      show();
    });
    about.append(button);
    const counts = data.states.map((name) => [found.rows.filter((row) => row.state === name).length, name]).filter(([count]) => count);
    about.append(make("span", counts.map(([count, name]) => `${count} ${name}`).join(", "), "why"));
    const status = make("td");
    if (data.pickable) status.append(picker(found.rows, found.label), " ");
    status.append(pill(counts[0][1]));
    const cells = shownColumns.map((column) => {
      const cell = sized(make("td", undefined, kindOf(column)), column.id);
      if (column.kind === "axis") {
        const values = new Set(found.rows.map(column.of).filter((value) => value !== null));
        cell.textContent = values.size > 1 ? plural(values.size, "value") : valueText([...values][0] ?? null) ?? "";
      } else {
        const mean = found.means.get(column.id) ?? summary(found.rows, column, data);
        if (mean) Object.assign(cell, { textContent: meanText(column, mean), title: mean.about });
      }
      return cell;
    });
    line.append(status, about, ...cells);
    return line;
  };
  // The lines of the list in their order: jobs, or groups with the jobs of those that are open.
  const sortedLines = (found) => {
    const key = view.order && (FIXED[view.order.id]?.of ?? byId.get(view.order.id)?.of);
    if (!group.value) {
      if (key) found.sort(view.order.id === "job" ? byName(columns, view.order.down) : order(key, view.order.down));
      else if (data.live) found.sort((one, other) => urgency(one) - urgency(other));
      return [found, null];
    }
    const groups = groupsOf(found, group.value, data.seeds);
    groups.forEach((one) => { one.means = new Map(); });
    const column = view.order && byId.get(view.order.id);
    const value = (one) => {
      if (!column) return view.order?.id === "state" ? Math.min(...one.rows.map(FIXED.state.of)) : one.label;
      if (column.kind === "axis") return column.of(one.rows[0]);
      const mean = summary(one.rows, column, data);
      one.means.set(column.id, mean);
      return mean?.mean ?? null;
    };
    if (key) {
      const values = new Map(groups.map((one) => [one, value(one)]));
      groups.sort(order((one) => values.get(one), view.order.down));
    } else if (data.live) {
      groups.sort((one, other) => Math.min(...one.rows.map(urgency)) - Math.min(...other.rows.map(urgency)));
    }
    const lines = groups.flatMap((one) => {
      if (key) one.rows.sort(order(key, view.order.down));
      return openGroups.has(one.label) ? [one, ...one.rows] : [one];
    });
    return [lines, groups];
  };
  // Pinned columns stay beside the name of the job, each after the one before it.
  const pin = () => {
    const table = head.closest("table");
    let left = head.children[1]?.offsetWidth ?? 0;
    table.querySelectorAll("thead .pinned").forEach((cell) => {
      table.querySelectorAll(`[data-column="${CSS.escape(cell.dataset.column)}"]`).forEach((other) => { other.style.left = `${left}px`; });
      left += cell.offsetWidth;
    });
  };
  const focused = () => {
    const { key, group: name, sort, pick } = document.activeElement?.dataset ?? {};
    const [attribute, value] = key ? ["key", key] : name ? ["group", name] : sort ? ["sort", sort] : pick ? ["pick", pick] : [];
    return attribute && section.contains(document.activeElement) ? `[data-${attribute}="${CSS.escape(value)}"]` : null;
  };
  // Two chosen jobs with results can be compared: on a page of the server, else by a command.
  const showPair = (chosen) => {
    const both = chosen.length === 2 && chosen.every(({ state }) => ["done", "cached"].includes(state)) ? data.compare(chosen) : null;
    const place = of("pair");
    place.hidden = !both;
    if (!both) place.replaceChildren();
    else if (both.command) place.replaceChildren(" The two are compared by ", make("code", both.command));
    else if (place.firstChild?.getAttribute?.("href") !== both.href) place.replaceChildren(Object.assign(make("a", "Compare the two jobs"), { href: both.href }));
  };
  const matching = () => {
    const { fits, remarks, unmet } = compileFilter(text.value, columns, rows);
    const note = of("filter-note");
    const names = remarks.length ? ` Names: ${["state", "step", "tag", ...columns.map(({ name }) => name)].slice(0, 12).join(", ")}${columns.length > 9 ? ", …" : ""}.` : "";
    note.textContent = [...remarks, ...unmet].length ? `${[...new Set([...remarks, ...unmet])].join("; ")}.${names}` : "";
    note.hidden = !note.textContent;
    return rows.filter((row) => (!step.value || row.step === step.value) && (!state.value || row.state === state.value) && fits(row));
  };
  const show = () => {
    const found = matching();
    const [lines, groups] = sortedLines([...found]);
    first = Math.max(0, Math.min(first, Math.floor((lines.length - 1) / PAGE) * PAGE));
    const from = printing ? 0 : first;
    const page = lines.slice(from, from + (printing ? MAX_PRINTED : PAGE));
    const ids = view.shown();
    const pinned = view.pins.filter((id) => ids.includes(id));
    const shownColumns = [...pinned, ...ids.filter((id) => !pinned.includes(id))].map((id) => byId.get(id));
    const focus = focused();
    head.replaceChildren(heading("state", "State"), heading("job", group.value ? "Group" : "Job"), ...shownColumns.map((column) => sized(heading(column.id, column.title, kindOf(column), column.name), column.id)));
    body.replaceChildren(...page.flatMap((line) => (line.rows ? [groupLine(line, shownColumns)] : lineOf(line, shownColumns, groups !== null))));
    pin();
    if (focus) section.querySelector(focus)?.focus();
    const range = page.length < lines.length ? `, ${(from + 1).toLocaleString("en")} to ${(from + page.length).toLocaleString("en")} shown` : "";
    of("shown").textContent = `${groups ? `${plural(groups.length, "group")} of ` : ""}${plural(found.length, "job")}${range}`;
    of("restricted").textContent = found.length < rows.length ? ` of ${rows.length.toLocaleString("en")}` : "";
    // On paper there are no controls that say it.
    const sorted = view.order ? `sorted by ${byId.get(view.order.id)?.title ?? view.order.id}${view.order.down ? ", descending" : ""}` : "";
    const how = [text.value.trim() && `filter: ${text.value.trim()}`, step.value && `step: ${step.value}`, state.value && `state: ${state.value}`, group.value && `groups by ${group.value}`, sorted];
    of("how").textContent = how.some(Boolean) ? ` (${how.filter(Boolean).join("; ")})` : "";
    const averaged = groups ? [...new Set(page.flatMap((line) => (line.rows ? averagedIn(line.rows, data) : [])))] : [];
    of("means").textContent = averaged.length ? `Means ± intervals are over seeds: ${averaged.join(", ")} averaged within each seed. Tables whose cells average over such axes count them as units, so their intervals are others.` : "";
    of("means").hidden = !averaged.length;
    of("unpick").hidden = !view.picks.size;
    showPair(rows.filter((row) => view.picks.has(row.key)));
    of("pages").hidden = lines.length <= PAGE;
    of("earlier").disabled = first === 0;
    of("later").disabled = first + PAGE >= lines.length;
    save();
    // An address may have jobs that are not in this run.
    const picked = rows.filter((row) => view.picks.has(row.key));
    watchers.forEach((seen) => seen(found, picked.length ? picked : found, picked.length > 0));
  };
  // From a line the arrows, Home and End lead to others, Page Up and Page Down to other pages, and Escape closes what is open.
  body.addEventListener("keydown", (event) => {
    const buttons = [...body.querySelectorAll("button[data-key], button[data-group]")];
    // Escape leaves an open job from every place in it; a field of a search has its own use of it.
    const at = event.key === "Escape" && open && !event.target.matches("input, select") && event.target.closest(".opened") ? 0 : buttons.indexOf(event.target);
    if (at < 0 || event.ctrlKey || event.altKey || event.metaKey) return;
    const page = { PageDown: PAGE, PageUp: -PAGE }[event.key];
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: buttons.length - 1 }[event.key];
    if (page) {
      first += page;
      show();
      body.querySelector("button[data-key], button[data-group]")?.focus();
    } else if (to !== undefined) {
      buttons[Math.max(0, Math.min(to, buttons.length - 1))].focus();
    } else if (event.key === "Escape" && open) {
      const key = open;
      open = null;
      show();
      body.querySelector(`[data-key="${key}"]`)?.focus();
    } else {
      return;
    }
    event.preventDefault();
  });
  const turn = (by) => () => { first += by; show(); of("shown").scrollIntoView(); };
  const print = (is) => () => { printing = is; show(); };
  window.addEventListener("beforeprint", print(true));
  window.addEventListener("afterprint", print(false));
  [text, step, state, group].forEach((control) => control.addEventListener("input", () => { first = 0; show(); }));
  text.form.addEventListener("submit", (event) => event.preventDefault());
  of("earlier").addEventListener("click", turn(-PAGE));
  of("later").addEventListener("click", turn(PAGE));
  of("unpick").addEventListener("click", () => { view.picks.clear(); show(); });
  read();
  text.value = view.text;
  [[step, view.step], [state, view.state], [group, view.group]].forEach(([select, wanted]) => {
    if ([...select.options].some(({ value }) => value === wanted)) select.value = wanted;
  });
  show();
  const clear = () => { [text.value, step.value, state.value, group.value] = ["", "", "", ""]; };
  // The page of the list that has a job.
  const place = (key) => {
    const at = sortedLines(matching())[0].findIndex((row) => row.key === key);
    first = Math.max(0, Math.floor(at / PAGE) * PAGE);
  };
  const find = (row) => {
    if (!row) return;
    // The reader's view stays, unless it hides the job.
    group.value = "";
    if (!matching().includes(row)) clear();
    open = row.key;
    place(row.key);
    show();
    const line = body.querySelector(`[data-key="${row.key}"]`);
    line?.scrollIntoView({ block: "center" });
    line?.focus();
  };
  // A link within the page, or one that was pasted into its address.
  window.addEventListener("hashchange", () => find(rows.find((row) => row.key === location.hash.slice(1))));
  return {
    // Shows the jobs of a step.
    choose: (name) => {
      step.value = name;
      // The reader's view stays, unless it hides the step.
      if (!matching().length) { clear(); step.value = name; }
      first = 0;
      show();
    },
    // Opens the job of this name, whatever is filtered or grouped.
    find: (name) => find(rows.find((row) => row.label === name)),
    // Opens a job by its key.
    open: (key) => find(rows.find((row) => row.key === key)),
    // Reads the lines, and a job if it is open, again.
    reload: (key) => {
      if (before?.key === key) before = null;
      read();
      show();
    },
    update: (next) => { data = next; read(); show(); },
    // Calls `seen` with the jobs that pass the filter, those whose curves are drawn, and true if these were chosen one by one.
    watch: (seen) => { watchers.push(seen); show(); },
    columns: () => columns,
    rows: () => rows,
    // Sets the filter's words about columns, each a name with its condition; an empty condition removes the word.
    // Their values are in quotes where these are needed.
    restrict: (words) => {
      const known = [...OWN_COLUMNS, ...columns];
      const restricted = words.map(([name]) => conditionOf(`${name}=`, known)?.column);
      const isOther = (word) => {
        const condition = conditionOf(plainWord(word), known);
        return condition?.operator !== "=" || !restricted.includes(condition.column);
      };
      const added = words.filter(([, value]) => value).map(([name, value]) => (/[\s"]/.test(name) ? inQuotes(`${name}=${value}`) : `${name}=${value}`));
      text.value = [...filterWords(text.value, known).filter(isOther), ...added].join(" ");
      first = 0;
      show();
    },
    // Writes what running jobs say, by their keys, into their lines.
    progress: (says) => {
      data.progress = says;
      body.querySelectorAll(".progress").forEach((place) => {
        const said = says.get(place.parentElement.querySelector("button").dataset.key) ?? "";
        if (place.textContent !== said) place.textContent = said;
      });
    },
    kept: () => ({ first, open, groups: [...openGroups] }),
  };
};
// A step of a drawing leads to its jobs.
const linkSteps = (list) => document.querySelectorAll("a[data-step]").forEach((link) => link.addEventListener("click", () => list.choose(link.dataset.step)));
