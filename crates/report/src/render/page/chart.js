// Charts: values under the pointer, zoom, series on and off, logarithmic axes, smoothing. The figures of a report have drawings
// beside them, which are shown in print and without this script; the curves of a job are charts only.
const HEIGHT = 340;
const SMALL = 150;
// A pointer that moves fewer pixels than this clicks; another one zooms.
const STILL = 5;
const FONT = "12px system-ui, sans-serif";
const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const dark = matchMedia("(prefers-color-scheme: dark)");
// A series has a color, or the name of one of the page's.
const ink = (wanted) => (wanted.startsWith("--") ? color(wanted) : dark.matches && wanted === "#000000" ? "#ffffff" : wanted);
// An exponential moving average without the bias of its beginning, as other trackers have it.
const smoothed = (values, weight) => {
  let [mean, count] = [0, 0];
  return values.map((value) => {
    if (value === null) return null;
    mean = mean * weight + value * (1 - weight);
    count += 1;
    return mean / (1 - weight ** count);
  });
};
// The numbers of series at all of their places: a row of places, then a row for each series.
const aligned = (lists) => {
  const rows = lists.flatMap(({ x }, list) => x.map((at, index) => [at, list, index]));
  rows.sort((one, other) => one[0] - other[0]);
  const [places, cells] = [[], lists.map(() => [])];
  rows.forEach(([at, list, index]) => {
    // Dots at the same place have rows of their own.
    const last = places.length - 1;
    const row = last >= 0 && places[last] === at && cells[list][last] === undefined ? last : places.push(at) - 1;
    cells[list][row] = index;
  });
  const column = (list, values) => places.map((_, row) => (cells[list][row] === undefined ? null : values[cells[list][row]]));
  return { places, cells, column };
};
const control = (box, kind, text, initial) => {
  const label = make("label");
  const input = make("input");
  Object.assign(input, initial, { type: kind });
  if (kind === "checkbox") label.append(input, ` ${text}`);
  else label.append(`${text} `, input);
  box.append(label);
  return input;
};
// A chart of series over a common axis, in a box of its own; a small one has fewer words. `update` replaces the series, which
// are as many as before, and keeps what was chosen.
const drawChart = (title, { x, y, series }, small) => {
  const state = { logX: Boolean(x.log), logY: Boolean(y.log), smooth: 0, hidden: new Set(), zoomed: false };
  const box = make("div", undefined, small ? "chart small" : "chart");
  box.setAttribute("role", "group");
  box.setAttribute("aria-label", spoken(title));
  const [place, readout, legend, tools] = [make("div", undefined, "canvas"), make("p", "\u00a0", "note"), make("div", undefined, "choices legend"), make("div", undefined, "choices tools")];
  place.setAttribute("role", "img");
  place.tabIndex = 0;
  if (small) {
    const more = make("details");
    more.append(make("summary", "Axes and smoothing"), tools);
    box.append(place, readout, legend, more);
  } else {
    box.append(prose(make("h3"), title), place, readout, legend, tools);
  }
  let [table, chart] = [undefined, undefined];
  const limits = { x: [0, 1], y: [0, 1], half: [0, 1] };
  const take = (next) => {
    series = next;
    table = aligned(series);
    limits.x = extremes(series.flatMap((line) => extremes(line.x)).filter(Number.isFinite));
    limits.half = extremes(series.flatMap((line) => line.half ?? []).filter(Number.isFinite));
    limits.y = extremes(series.flatMap((line) => extremes(line.y.filter(Number.isFinite))).filter(Number.isFinite));
    const ends = ({ x: at, y: values }) => `${plural(values.length, "value")} from ${reading(values[0], limits.y)} at ${reading(at[0], limits.x)} to ${reading(values[values.length - 1], limits.y)} at ${reading(at[at.length - 1], limits.x)}`;
    const words = series.filter((line) => !line.thin && !line.dots && line.y.length).map((line) => `${series.length > 1 ? `${line.name}: ` : ""}${ends(line)}`);
    place.setAttribute("aria-label", words.length && !x.words ? `${spoken(title)}: ${words.join("; ")}` : spoken(title));
  };
  take(series);
  const number = (value, side) => reading(value, limits[side]).replace("-", "−");
  const lines = () => series.map((line, list) => ({ line, list, hidden: state.hidden.has(list) }));
  const dotted = series.every((line) => line.dots);
  // The dot nearest to the pointer, with its distance in pixels.
  const nearest = (self) => {
    let best = null;
    lines().filter(({ line, hidden }) => line.dots && !hidden).forEach(({ line, list }) => table.places.forEach((at, row) => {
      const index = table.cells[list][row];
      if (index === undefined) return;
      const distance = Math.hypot(self.valToPos(at, "x") - self.cursor.left, self.valToPos(line.y[index], "y") - self.cursor.top);
      if (distance < (best?.distance ?? Infinity)) best = { line, list, index, row, distance };
    }));
    return best;
  };
  const say = (self) => {
    const dot = dotted && self.cursor.left >= 0 ? nearest(self) : null;
    const row = dot ? dot.row : self.cursor.idx;
    if (row === null || row === undefined) { readout.textContent = "\u00a0"; return; }
    const at = x.words ? x.words[self.data[0][row]] : number(self.data[0][row], "x");
    const values = lines().flatMap(({ line, list, hidden }) => {
      const index = table.cells[list][row];
      if (index === undefined || hidden || (dot && dot.list !== list)) return [];
      const half = line.half ? ` ± ${number(line.half[index], "half")}` : "";
      return [`${line.jobs ? `${line.jobs[index]}: ` : line.name && !(small && series.length === 1) ? `${line.name}: ` : ""}${number(line.y[index], "y")}${half}`];
    });
    readout.textContent = `${x.label} ${at} · ${values.join(" · ")}`;
  };
  // The columns of the chart: of a line its numbers, before them the ends of its intervals or what was smoothed.
  const columns = () => {
    const positive = (values) => (state.logY ? values.map((value) => (value > 0 ? value : null)) : values);
    const [data, options, bands] = [[table.places], [{}], []];
    lines().forEach(({ line, list, hidden }) => {
      const [stroke, smooth] = [ink(line.color), state.smooth && !line.dots];
      const own = (values) => positive(table.column(list, values));
      const common = { show: !hidden, spanGaps: true };
      if (line.half && !state.smooth) {
        const edge = { stroke: "transparent", points: { show: false }, ...common };
        data.push(own(line.y.map((value, index) => value + line.half[index])), own(line.y.map((value, index) => value - line.half[index])));
        options.push(edge, edge);
        bands.push({ series: [data.length - 2, data.length - 1], fill: `${stroke}29` });
      }
      if (smooth) {
        data.push(own(line.y));
        options.push({ stroke: `${stroke}40`, width: 1, points: { show: false }, ...common });
      }
      data.push(smooth ? positive(smoothed(table.column(list, line.y), state.smooth)) : own(line.y));
      options.push({
        label: line.name, stroke: line.thin ? `${stroke}90` : stroke, width: line.thin ? 1 : 2, dash: line.dash, ...common,
        points: { show: () => line.dots || (!line.step && table.places.length < 40), size: line.dots ? 8 : 5, fill: stroke },
        ...(line.dots ? { paths: () => null } : line.step ? { paths: uPlot.paths.stepped({ align: 1 }) } : {}),
      });
    });
    return { data, options, bands };
  };
  const width = () => Math.max(240, place.clientWidth);
  const height = small ? SMALL : HEIGHT;
  const build = () => {
    chart?.destroy();
    state.zoomed = false;
    const { data, options, bands } = columns();
    const limited = (side, log) => side.limits && !(log && side.limits.some((end) => end !== null && end <= 0));
    const range = ({ limits: [low, high] }) => (self, least, most) => [low ?? least, high ?? most];
    // uPlot's own ranges have no room for very small and very large numbers.
    const isStrange = (ends, log) => {
      const [, size] = extremes(ends.map(Math.abs));
      return !log && size !== 0 && Number.isFinite(size) && (size < 1e-15 || size > 1e15 || sharedDigits(ends) > 8);
    };
    const scale = (side, log, ends) => ({ time: false, distr: log ? 3 : 1, ...(limited(side, log) ? { range: range(side) } : isStrange(ends, log) ? { range: (self, low, high) => padded(low ?? 0, high ?? 1, false) } : {}) });
    const words = x.words ? { splits: () => x.words.map((_, index) => index), values: () => x.words } : {};
    const found = (self, index, at) => {
      if (index === 0) return at;
      const dot = nearest(self);
      return dot && dot.list === index - 1 ? dot.row : null;
    };
    chart = new uPlot({
      width: width(), height, series: options, bands, legend: { show: false },
      scales: { x: scale(x, state.logX, limits.x), y: scale(y, state.logY, limits.y) },
      axes: [
        { ...axisOf(state.logX, x.whole), ...(small ? { size: 26 } : titled(x.label, 24)), ...words },
        { ...axisOf(state.logY, false), ...(small ? { space: 24, size: roomOf(48) } : { ...titled(y.label, 24), space: 46, size: roomOf(58) }) },
      ],
      cursor: { drag: { x: true, y: true, uni: 24, dist: STILL, click: () => {} }, ...(dotted ? { dataIdx: found } : {}) },
      hooks: { setCursor: [say], setSelect: [(self) => { state.zoomed ||= self.select.width > 0; }] },
    }, data, place);
    if (series.some((line) => line.jobs)) {
      let down = null;
      chart.over.addEventListener("mousedown", (event) => { down = event; });
      chart.over.addEventListener("click", (event) => {
        if (!down || Math.hypot(event.clientX - down.clientX, event.clientY - down.clientY) >= STILL) return;
        const dot = nearest(chart);
        if (dot && dot.distance < 20) box.dispatchEvent(new CustomEvent("job", { bubbles: true, detail: dot.line.jobs[dot.index] }));
      });
    }
  };
  series.forEach((line, list) => {
    if (line.thin || series.length < 2) return;
    const input = control(legend, "checkbox", valueText(line.name), { checked: true });
    const sample = draw("svg", { viewBox: "0 0 28 10", "aria-hidden": "true" });
    sample.append(draw("path", { d: "M0 5H28", stroke: line.color.startsWith("--") ? `var(${line.color})` : ink(line.color), "stroke-width": line.dots ? 6 : 2.5, "stroke-dasharray": (line.dash ?? []).join(" ") }));
    input.after(sample);
    input.addEventListener("change", () => {
      // A stopped curve goes with the color that it has.
      series.forEach((other, index) => {
        if (index === list || (other.thin && other.color === line.color)) state.hidden[input.checked ? "delete" : "add"](index);
      });
      build();
    });
  });
  const positive = (key) => series.some((line) => line[key].some((value) => value > 0));
  const choose = (key) => ({ target }) => { state[key] = target.checked; build(); };
  if (!x.words && positive("x")) control(tools, "checkbox", "log x", { checked: state.logX }).addEventListener("change", choose("logX"));
  if (positive("y")) control(tools, "checkbox", "log y", { checked: state.logY }).addEventListener("change", choose("logY"));
  if (small || series.some((line) => !line.dots && !line.step && line.x.length > 2)) control(tools, "range", "smoothing", { min: 0, max: 0.99, step: 0.01, value: 0 }).addEventListener("input", ({ target }) => { state.smooth = Number(target.value); build(); });
  const reset = make("button", "Whole range", "plain");
  reset.type = "button";
  reset.addEventListener("click", build);
  tools.append(reset, make("span", `Drag to zoom, or press +, −, 0 and arrows.${series.some((line) => line.jobs) ? " Click a dot to open its job." : ""}`, "note"));
  build();
  place.addEventListener("dblclick", () => { state.zoomed = false; });
  onZoomKeys(place, (by, shift) => {
    const { min, max } = chart.scales.x;
    const [low, high] = by === null ? [table.places[0], table.places.at(-1)] : rescaled([min, max], state.logX, by, shift);
    state.zoomed = by !== null;
    if (low < high) chart.setScale("x", { min: low, max: high });
  });
  new ResizeObserver(() => {
    if (place.clientWidth && chart.width !== width()) chart.setSize({ width: width(), height });
  }).observe(place);
  box.addEventListener("repaint", build);
  return { box, update: (next) => { take(next); chart.setData(columns().data, !state.zoomed); } };
};
dark.addEventListener("change", () => document.querySelectorAll(".chart").forEach((box) => box.dispatchEvent(new Event("repaint"))));

// The curves of jobs over their steps, with a caption; `heard` is the name for screen readers.
const COLORS = ["--busy", "--bad", "--good", "--open", "--ink", "--soft"];
const DASHES = [undefined, [6, 3], [2, 3], [8, 3, 2, 3], [10, 4], [1, 4]];
const jobCurve = (caption, given, heard = caption) => {
  const series = (lines) => lines.map(({ name, at, values }, index) => ({ name, color: COLORS[index % 6], dash: DASHES[index % 6], x: at, y: values }));
  const figure = make("figure", undefined, "curve");
  const title = make("figcaption", caption);
  const { box, update } = drawChart(heard, { x: { label: "step", whole: true }, y: {}, series: series(given) }, true);
  figure.append(title, box);
  return { figure, update: (next, lines) => { title.textContent = next; update(series(lines)); } };
};

document.querySelectorAll("figure script.points").forEach((points) => {
  const figure = points.closest("figure");
  const { box } = drawChart(figure.querySelector(".drawing").getAttribute("aria-label"), JSON.parse(points.textContent), false);
  figure.prepend(box);
  figure.classList.add("interactive");
});
