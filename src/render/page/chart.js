// Interactive figures: values under the pointer, zoom, series on and off, logarithmic axes, smoothing. Without this script, and
// in print, the drawings beside them are shown.
const HEIGHT = 340;
const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
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
const interactive = (figure, { x, y, series }) => {
  const title = figure.querySelector(".drawing").getAttribute("aria-label");
  const state = { logX: Boolean(x.log), logY: Boolean(y.log), smooth: 0, hidden: new Set() };
  const box = make("div", undefined, "chart");
  box.setAttribute("role", "group");
  box.setAttribute("aria-label", title);
  const [name, place, readout, legend, tools] = [make("h3", title), make("div", undefined, "canvas"), make("p", "\u00a0", "note"), make("div", undefined, "choices"), make("div", undefined, "choices")];
  box.append(name, place, readout, legend, tools);
  figure.prepend(box);
  figure.classList.add("interactive");
  const table = aligned(series);
  const number = (value) => short(value).replace("-", "−");
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const ink = (wanted) => (dark.matches && wanted === "#000000" ? "#ffffff" : wanted);
  let chart;
  const say = (self) => {
    const row = self.cursor.idx;
    if (row === null || row === undefined) { readout.textContent = "\u00a0"; return; }
    const at = x.words ? x.words[self.data[0][row]] : number(self.data[0][row]);
    const values = series.flatMap((line, list) => {
      const index = table.cells[list][row];
      if (index === undefined || state.hidden.has(list)) return [];
      const half = line.half ? ` ± ${number(line.half[index])}` : "";
      return [`${line.jobs ? `${line.jobs[index]}: ` : line.name ? `${line.name}: ` : ""}${number(line.y[index])}${half}`];
    });
    readout.textContent = `${x.label} ${at} · ${values.join(" · ")}`;
  };
  const build = () => {
    chart?.destroy();
    const positive = (values) => (state.logY ? values.map((value) => (value > 0 ? value : null)) : values);
    const [data, options, bands] = [[table.places], [{}], []];
    series.forEach((line, list) => {
      const [stroke, hidden] = [ink(line.color), state.hidden.has(list)];
      const own = (values) => positive(table.column(list, values));
      if (line.half && !state.smooth) {
        const edge = { stroke: "transparent", points: { show: false }, show: !hidden, spanGaps: true };
        data.push(own(line.y.map((value, index) => value + line.half[index])), own(line.y.map((value, index) => value - line.half[index])));
        options.push(edge, edge);
        bands.push({ series: [data.length - 2, data.length - 1], fill: `${stroke}29` });
      }
      if (state.smooth && !line.dots) {
        data.push(own(line.y));
        options.push({ stroke: `${stroke}40`, width: 1, points: { show: false }, show: !hidden, spanGaps: true });
      }
      data.push(state.smooth && !line.dots ? positive(smoothed(table.column(list, line.y), state.smooth)) : own(line.y));
      options.push({
        label: line.name, stroke: line.thin ? `${stroke}90` : stroke, width: line.thin ? 1 : 2, dash: line.dash, show: !hidden, spanGaps: true,
        points: line.dots ? { show: true, size: 8, fill: stroke } : { show: line.x.length < 40, size: 5, fill: stroke },
        ...(line.dots ? { paths: () => null } : {}),
      });
    });
    const limited = (side, log) => side.limits && !(log && side.limits.some((end) => end !== null && end <= 0));
    const range = ({ limits: [low, high] }) => (self, least, most) => [low ?? least, high ?? most];
    const scale = (side, log) => ({ time: false, distr: log ? 3 : 1, ...(limited(side, log) ? { range: range(side) } : {}) });
    const axis = (label) => ({ label, labelSize: 24, labelFont: "12px system-ui, sans-serif", font: "12px system-ui, sans-serif", stroke: color("--soft"), grid: { stroke: color("--line"), width: 1 }, ticks: { stroke: color("--line"), width: 1 }, space: 46 });
    const words = x.words ? { splits: () => x.words.map((_, index) => index), values: () => x.words } : {};
    const tidy = (self, splits) => splits.map((value) => (value === null ? "" : tick(value)));
    chart = new uPlot({
      width: Math.max(240, place.clientWidth), height: HEIGHT, series: options, bands, legend: { show: false },
      scales: { x: scale(x, state.logX), y: scale(y, state.logY) },
      axes: [{ values: tidy, ...axis(x.label), ...words }, { values: tidy, size: 58, ...axis(y.label) }],
      cursor: { drag: { x: true, y: true, uni: 24 } },
      hooks: { setCursor: [say] },
    }, data, place);
  };
  series.forEach((line, list) => {
    if (line.thin || series.length < 2) return;
    const input = control(legend, "checkbox", line.name || title, { checked: true });
    const sample = draw("svg", { viewBox: "0 0 28 10", "aria-hidden": "true" });
    sample.append(draw("path", { d: "M0 5H28", stroke: ink(line.color), "stroke-width": line.dots ? 6 : 2.5, "stroke-dasharray": (line.dash ?? []).join(" ") }));
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
  if (!x.words && positive("x")) control(tools, "checkbox", "log x", { checked: state.logX }).addEventListener("change", ({ target }) => { state.logX = target.checked; build(); });
  if (positive("y")) control(tools, "checkbox", "log y", { checked: state.logY }).addEventListener("change", ({ target }) => { state.logY = target.checked; build(); });
  if (series.some((line) => !line.dots && line.x.length > 2)) control(tools, "range", "smoothing", { min: 0, max: 0.99, step: 0.01, value: 0 }).addEventListener("input", ({ target }) => { state.smooth = Number(target.value); build(); });
  const reset = make("button", "Whole range", "plain");
  reset.type = "button";
  reset.addEventListener("click", build);
  tools.append(reset, make("span", "Drag to zoom.", "note"));
  build();
  new ResizeObserver(() => {
    if (chart.width !== Math.max(240, place.clientWidth)) chart.setSize({ width: Math.max(240, place.clientWidth), height: HEIGHT });
  }).observe(place);
  dark.addEventListener("change", build);
};
document.querySelectorAll("figure script.points").forEach((points) => interactive(points.closest("figure"), JSON.parse(points.textContent)));
