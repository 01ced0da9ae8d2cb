// Curves of many jobs in common axes: of those that the list shows, or of chosen ones. uPlot draws the axes, and this script the
// curves on the same canvas. The charts share the range of their x axes and the cursor.
const MAX_LINES = 1000;
// Jobs whose curves are averaged at most.
const MAX_MEMBERS = 10000;
// Points of all curves of a chart together, and of one of them.
const ALL_POINTS = 200000;
const CURVE_POINTS = [128, 2048];
// Categories beyond so many have colors of a scale instead of colors and dashes of their own.
const OWN_COLORS = 6;
const MAX_LEGEND = 40;
const MAX_CHARTS = 6;
// Width of a chart on paper, in CSS pixels: within the margins of A4 and Letter.
const PAPER = 640;
// Milliseconds without a further move after which the curves of a range are read.
const MOVING = 120;
// Curves that arrive are drawn if the last drawing ended this many times its own duration before.
const DRAWING_SHARE = 5;
const scaleColor = (share) => `hsl(${Math.round(265 - 235 * share)} 70% ${dark.matches ? 66 : 40}%)`;
// States of jobs whose curves do not go on: those that failed have what they reported.
const ENDED = ["done", "cached", "failed", "stopped", "lost"];

// `source` has the names of series with their units (`names`), reads curves (`read`), and knows those of running jobs (`running`).
const curveOverlay = (box, data, list, source) => {
  const asked = readAddress();
  const given = asked.list("range").map(numeric);
  const state = { charts: asked.list("charts"), x: asked.text("x"), color: asked.text("color"), mean: asked.has("mean"), base: asked.text("minus"), smooth: Math.max(0, Math.min(0.99, Number(asked.text("smooth")) || 0)), logX: asked.text("log").includes("x"), logY: asked.text("log").includes("y"), range: given.length === 2 && given[0] !== null && given[1] !== null && given[0] < given[1] && !(asked.text("log").includes("x") && given[0] <= 0) ? given : null };
  const save = () => writeAddress({ charts: state.charts.join() === firstCharts().join() ? "" : state.charts, x: state.x, color: state.color === firstColor() ? "" : state.color, mean: state.mean ? "1" : "", minus: state.base, smooth: state.smooth ? String(state.smooth) : "", log: `${state.logX ? "x" : ""}${state.logY ? "y" : ""}`, range: state.range?.map((end) => String(nearly(end, (state.range[1] - state.range[0]) / 1e4))) ?? "" });
  const [title, note, tools, place, legend] = [make("h3", "Curves"), make("p", "", "note"), make("div", undefined, "choices"), make("div", undefined, "overlays"), make("ul", undefined, "choices keys")];
  note.setAttribute("role", "status");
  const select = (text) => {
    const label = make("label");
    const input = make("select");
    label.append(`${text} `, input);
    tools.append(label);
    return input;
  };
  const [add, x, tint, base] = ["Chart", "x axis", "Color", "Difference to"].map(select);
  const [mean, logX, logY] = [["mean and interval", state.mean], ["log x", state.logX], ["log y", state.logY]].map(([text, checked]) => control(tools, "checkbox", text, { checked }));
  const smooth = control(tools, "range", "smoothing", { min: 0, max: 0.99, step: 0.01, value: state.smooth });
  tools.append(plainButton("Whole range", () => zoom(null)));
  box.append(title, note, tools, legend, place, make("p", "Drag to zoom, with Shift to pan. By keyboard: + and − zoom, arrows pan, 0 shows the whole range.", "note hint"));
  let [rows, some, singles, chosen, categories, hover] = [[], [], new Set(), false, new Map(), null];
  const [charts, counts] = [new Map(), new Map()];
  const unit = (name) => { const found = source.names().find(([known]) => known === name); return unitOf({ name, unit: found?.[1] }); };
  const categoryOf = (row) => (state.color === "job" ? row.label : state.color === CONFIGURATION ? `${row.step}/${withoutSeeds(row, data.seeds)}` : row.axes.get(state.color) ?? null);
  // Jobs without the axis have a category of their own, which is no value.
  const nameOf = (category) => (category === null ? `no ${state.color}` : valueText(category));
  // The category as an option and in the address.
  const codeOf = (category) => (category === null ? ":" : category === "" || category.startsWith(":") ? `:${category}x` : category);
  const axesShown = () => list.columns().filter(({ kind, first }) => kind === "axis" && first).map(({ name }) => name);
  const firstColor = () => axesShown().find((name) => !data.seeds.includes(name)) ?? "job";
  const firstCharts = () => {
    const names = source.names().map(([name]) => name);
    const shown = data.columns.slice(0, data.shown).find(([, metric]) => names.includes(metric));
    return names.length ? [shown?.[1] ?? names[0]] : [];
  };
  const options = () => {
    const names = source.names().map(([name]) => name);
    // Before the first result, the series that the address names may still come.
    if (!names.length) return;
    // Jobs that run may yet report them.
    state.charts = state.charts.filter((name) => data.live || names.includes(name));
    if (!state.charts.length) state.charts = firstCharts();
    const isFull = state.charts.length >= MAX_CHARTS;
    fill(add, [["", isFull ? `at most ${MAX_CHARTS} charts` : "add a chart"], ...(isFull ? [] : names.filter((name) => !state.charts.includes(name)).map((name) => [name, name]))], "");
    fill(x, [["", "step"], ...names.map((name) => [name, name])], state.x);
    state.x = x.value;
    const axes = axesShown();
    const colors = [...axes, ...(axes.some((name) => data.seeds.includes(name)) ? [CONFIGURATION] : []), "job"];
    fill(tint, colors.map((name) => [name, name]), state.color || firstColor());
    state.color = tint.value;
  };
  const classify = () => {
    const names = [...new Set(rows.map(categoryOf))];
    if (names.every((name) => name === null || numeric(name) !== null)) names.sort(order((name) => name, false));
    categories = new Map(names.map((name, index) => [name, names.length <= OWN_COLORS
      ? { color: COLORS[index], dash: DASHES[index] } : { share: names.length > 1 ? index / (names.length - 1) : 0 }]));
    some = fewest(rows, state.mean || state.base ? MAX_MEMBERS : MAX_LINES);
    singles = new Set(fewest(some, MAX_LINES));
    fill(base, [["", "nothing"], ...names.slice(0, 500).map((name) => [codeOf(name), nameOf(name)])], state.base);
    state.base = base.value;
    counts.clear();
    legend.replaceChildren(...names.slice(0, MAX_LEGEND).map((name) => {
      const [item, { dash }] = [make("li"), categories.get(name)];
      const sample = draw("svg", { viewBox: "0 0 28 10", "aria-hidden": "true" });
      sample.append(draw("path", { d: "M0 5H28", stroke: colorOf(name), "stroke-width": 3, "stroke-dasharray": (dash ?? []).join(" ") }));
      const place = make("span", "", "note");
      counts.set(name, place);
      item.append(sample, " ", broken(make("span"), nameOf(name)), place);
      return item;
    }));
    if (names.length > MAX_LEGEND) legend.append(make("li", `and ${names.length - MAX_LEGEND} more`));
  };
  const colorOf = (name) => { const { color: own, share } = categories.get(name); return own ? ink(own) : scaleColor(share); };
  // Of too many jobs each color has the same number, or all that it has.
  const fewest = (rows, most) => {
    if (rows.length <= most) return rows;
    const of = groupBy(rows, categoryOf);
    const taken = new Set();
    for (let place = 0; taken.size < most; place += 1) of.forEach((list) => { if (place < list.length && taken.size < most) taken.add(list[place]); });
    return rows.filter((row) => taken.has(row));
  };
  const drawn = () => some;
  // The colors whose means lack jobs or intervals say so.
  const mark = () => {
    const chart = [...charts.values()][0];
    const found = chart && state.mean ? curvesOf(chart) : null;
    const members = groupBy(rows, categoryOf);
    counts.forEach((place, name) => {
      const all = members.get(name) ?? [];
      const having = found ? all.filter(({ key }) => found.has(key)) : all;
      const steps = new Set(having.map(({ step }) => step)).size;
      const words = [...(found && steps > 1 ? [`of ${steps} steps`] : []), ...(having.length < all.length ? [`${having.length} of ${plural(all.length, "job")}`] : []), ...(found && data.seeds.length && having.length && !unitsOf(having, data) ? ["without an interval"] : [])];
      place.textContent = words.length ? ` (${words.join(", ")})` : "";
    });
  };
  // The curves that a chart has for the jobs: those of the present range, else the whole ones, else those of running jobs.
  const curvesOf = (chart) => {
    const [present, whole, running] = [chart.maps.get(chart.wanted), chart.maps.get(chart.whole), source.running(chart.name, state.x)];
    return new Map(drawn().map(({ key }) => [key, present?.get(key) ?? whole?.get(key) ?? running.get(key)]).filter(([, curve]) => curve?.x.length));
  };
  const linesOf = (chart) => {
    const curves = curvesOf(chart);
    const members = new Map([...categories.keys()].map((name) => [name, []]));
    drawn().filter(({ key }) => curves.has(key)).forEach((row) => members.get(categoryOf(row))?.push(row));
    const base = [...members].find(([name]) => codeOf(name) === state.base)?.[1];
    const zero = base ? meanCurve(base, curves, state.logX, data) : null;
    let lines = [];
    members.forEach((of, name) => {
      const { dash } = categories.get(name);
      const look = { color: colorOf(name), dash };
      if (state.mean) {
        const line = meanCurve(of, curves, state.logX, data);
        if (line) lines.push({ ...line, ...look, label: `${nameOf(name)} (${of.length})`, id: codeOf(name), wide: true });
      } else {
        of.filter((row) => singles.has(row)).forEach((row) => lines.push({ ...curves.get(row.key), ...look, label: row.label, id: row.key, half: null }));
      }
    });
    if (state.base) lines = zero ? lines.map((line) => minus(line, zero)) : [];
    if (state.smooth) lines = lines.map((line) => ({ ...line, y: smoothed([...line.y], state.smooth), half: null }));
    return lines;
  };
  const extent = (lines, key, log, from, to) => {
    let [low, high] = [Infinity, -Infinity];
    lines.forEach((line) => line[key].forEach((value, index) => {
      if ((log && value <= 0) || (from !== undefined && (line.x[index] < from || line.x[index] > to))) return;
      const half = key === "y" ? line.half?.[index] ?? 0 : 0;
      low = Math.min(low, log && value - half <= 0 ? value : value - half);
      high = Math.max(high, value + half);
    }));
    if (key === "x" && low < high) return [low, high];
    return padded(low, high, log);
  };
  const xRange = () => state.range ?? state.whole ?? [0, 1];
  const place1 = (log, [low, high], begin, size) => {
    const of = log ? Math.log : (value) => value;
    const [from, to] = [of(low), of(high)];
    return (value) => begin + (of(value) - from) / (to - from) * size;
  };
  const paint = (chart) => (self) => {
    const { ctx, bbox: { left, top, width, height } } = self;
    const [from, to] = xRange();
    const [px, py] = [place1(state.logX, [from, to], left, width), place1(state.logY, chart.yRange, top + height, -height)];
    ctx.save();
    ctx.beginPath();
    ctx.rect(left, top, width, height);
    ctx.clip();
    const many = chart.lines.length > 60;
    const trace = (line, values, backward) => {
      // The points of the range, with one more on both sides.
      const [begin, last] = isFolded(line) ? [0, line.x.length - 1] : [Math.max(0, placeIn(line.x, from) - 1), Math.min(line.x.length - 1, placeIn(line.x, to) + 1)];
      for (let index = backward ? last : begin; backward ? index >= begin : index <= last; index += backward ? -1 : 1) {
        const value = values[index];
        if ((state.logX && line.x[index] <= 0) || (state.logY && value <= 0)) continue;
        ctx.lineTo(px(line.x[index]), py(value));
      }
    };
    chart.lines.forEach((line) => {
      if (!line.half?.some((half) => half !== null)) return;
      const low = line.y.map((value, index) => (state.logY ? Math.max(value - line.half[index], chart.yRange[0] / 10) : value - line.half[index]));
      ctx.beginPath();
      trace(line, line.y.map((value, index) => value + line.half[index]), false);
      trace(line, low, true);
      ctx.fillStyle = line.color;
      ctx.globalAlpha = 0.16;
      ctx.fill();
    });
    const ratio = devicePixelRatio;
    const stroke = (line, strong) => {
      ctx.beginPath();
      ctx.strokeStyle = ctx.fillStyle = strong ? color("--ink") : line.color;
      ctx.globalAlpha = strong || !many ? 1 : 0.55;
      ctx.lineWidth = (strong || line.wide ? 2.4 : many ? 1 : 1.6) * ratio;
      ctx.setLineDash(many ? [] : (line.dash ?? []).map((length) => length * ratio));
      trace(line, line.y, false);
      ctx.stroke();
      if (line.x.length === 1) ctx.fillRect(px(line.x[0]) - 3 * ratio, py(line.y[0]) - 3 * ratio, 6 * ratio, 6 * ratio);
    };
    chart.lines.forEach((line) => stroke(line, false));
    const strong = chart.lines.find(({ id }) => id === hover);
    if (strong && chart.lines.length > 1) stroke(strong, true);
    ctx.restore();
  };
  // The curve nearest to the pointer is named in this chart; the others show the value of the same job at the same place.
  const say = (chart) => (self) => {
    const { left, top } = self.cursor;
    if (left === undefined || left < 0) {
      chart.readout.textContent = "\u00a0";
      if (hover !== null) {
        hover = null;
        charts.forEach((other) => other.plot.redraw(false, false));
      }
      return;
    }
    const at = self.posToVal(left, "x");
    const isDragged = self.select.width > 0 || self.select.height > 0;
    if (self.over.matches(":hover") && !isDragged) {
      let best = [Infinity, null];
      chart.lines.forEach((line) => {
        const value = valueAt(line, at);
        const distance = value === null ? Infinity : Math.abs(self.valToPos(value, "y") - top);
        if (distance < best[0]) best = [distance, line.id];
      });
      if (hover !== best[1]) {
        hover = best[1];
        charts.forEach((other) => {
          other.plot.redraw(false, false);
          // The others have heard of the place before.
          if (other !== chart) say(other)(other.plot);
        });
      }
    }
    const line = chart.lines.find(({ id }) => id === hover);
    // What was measured is said, not what is between two measurements; of a mean over steps their range.
    const [axis, near] = [state.x || "step", line ? nearestPoint(line, at) : null];
    const whole = state.x ? (value) => value : Math.round;
    const place = (index) => {
      if (!line.edges) return `${axis} ${reading(line.x[index], xRange())}`;
      const [from, to] = state.x ? line.edges.slice(index, index + 2) : [Math.ceil(line.edges[index]), Math.floor(line.edges[index + 1])];
      return `${axis}${state.x ? "" : "s"} ${reading(from, xRange())} to ${reading(to, xRange())}`;
    };
    chart.readout.textContent = near === null ? `${axis} ${reading(whole(at), xRange())}` : `${place(near)} · ${line.label}: ${reading(line.y[near], chart.yRange)}`;
  };
  // A drag has ended when it zooms; keys and moves of the pointer may follow each other.
  const zoom = (range, of, wait = 0) => {
    // A logarithmic axis has no place for zero, and no marks far from one.
    const fits = !range || (range.every(Number.isFinite) && range[0] < range[1] && (!state.logX || (range[0] >= 1e-15 && range[1] <= 1e15)));
    if (!fits) return;
    state.range = range;
    charts.forEach((chart) => { chart.limits = chart === of ? chart.limits : null; });
    render();
    save();
    clearTimeout(state.timer);
    state.timer = setTimeout(load, wait);
  };
  const build = (chart) => {
    chart.plot?.destroy();
    const pan = (event) => {
      const [from, range] = [event.clientX, xRange()];
      const move = ({ clientX }) => zoom(rescaled(range, state.logX, 1, (from - clientX) / chart.plot.over.clientWidth), null, MOVING);
      document.addEventListener("pointermove", move);
      document.addEventListener("pointerup", () => document.removeEventListener("pointermove", move), { once: true });
    };
    const mousedown = (self, target, handler) => (event) => { if (event.shiftKey) pan(event); else handler(event); };
    chart.plot = new uPlot({
      width: Math.max(240, chart.place.clientWidth), height: 280, legend: { show: false },
      series: [{}, { show: true, points: { show: false }, paths: () => null }],
      scales: { x: { time: false, distr: state.logX ? 3 : 1, range: xRange }, y: { distr: state.logY ? 3 : 1, range: () => chart.yRange } },
      axes: [{ ...axisOf(state.logX, false), ...titled(state.x ? unit(state.x) : "step", 20), size: 32 }, { ...axisOf(state.logY, false), size: roomOf(60) }],
      cursor: { y: false, sync: { key: "overlay" }, points: { show: false }, drag: { x: true, y: true, uni: 24, dist: STILL, setScale: false }, bind: { mousedown, dblclick: () => () => zoom(null) } },
      hooks: {
        draw: [paint(chart)], setCursor: [say(chart)],
        setSelect: [(self) => {
          const { left, top, width, height } = self.select;
          if (width < STILL && height < STILL) return;
          if (height >= STILL && height < self.over.clientHeight - 1) chart.limits = [self.posToVal(top + height, "y"), self.posToVal(top, "y")];
          const range = width >= STILL && width < self.over.clientWidth - 1 ? [self.posToVal(left, "x"), self.posToVal(left + width, "x")] : state.range;
          self.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
          zoom(range, chart);
        }],
      },
    }, [[0, 1], [null, null]], chart.place);
  };
  const fresh = (name) => {
    const chart = { name, maps: new Map(), lines: [], yRange: [0, 1], limits: null, wanted: "", whole: "" };
    const [figure, caption] = [make("figure", undefined, "overlay"), make("figcaption", unit(name))];
    chart.place = make("div", undefined, "canvas");
    chart.place.tabIndex = 0;
    chart.place.setAttribute("role", "img");
    chart.readout = make("p", "\u00a0", "note");
    caption.append(" ", plainButton("Remove", () => { state.charts = state.charts.filter((other) => other !== name); options(); refresh(); }, `Remove the chart of ${name}`));
    figure.append(caption, chart.place, chart.readout);
    onZoomKeys(chart.place, (by, shift) => zoom(by === null ? null : rescaled(xRange(), state.logX, by, shift), null, by === null ? 0 : MOVING));
    new ResizeObserver(() => { if (chart.plot && chart.place.clientWidth) chart.plot.setSize({ width: Math.max(240, chart.place.clientWidth), height: 280 }); }).observe(chart.place);
    chart.figure = figure;
    return chart;
  };
  const render = () => {
    const begun = performance.now();
    charts.forEach((chart) => { chart.lines = linesOf(chart); });
    const all = [...charts.values()].flatMap(({ lines }) => lines);
    state.whole = extent(all, "x", state.logX);
    charts.forEach((chart) => {
      chart.yRange = chart.limits ?? extent(chart.lines, "y", state.logY, ...xRange());
      const look = `${state.logX} ${state.logY} ${state.x} ${dark.matches}`;
      if (chart.look !== look || !chart.plot) { chart.look = look; build(chart); }
      chart.plot.setData([xRange(), [null, null]]);
      chart.place.setAttribute("aria-label", `${chart.name} of ${plural(chart.lines.length, state.mean ? "group" : "job")}`);
    });
    // A logarithmic axis has no place for what is not above zero.
    const isLost = (log, key, line) => log && line[key].some((value) => value <= 0);
    const lost = all.filter((line) => isLost(state.logX, "x", line) || isLost(state.logY, "y", line)).length;
    const most = drawn().length < rows.length ? ` of ${rows.length.toLocaleString("en")}, as many of each color as there is room for` : "";
    mark();
    const curves = Math.max(0, ...[...charts.values()].map((chart) => curvesOf(chart).size));
    const back = state.mean || state.base ? Math.max(0, ...[...charts.values()].map((chart) => [...curvesOf(chart).values()].filter(isFolded).length)) : 0;
    state.drawn = performance.now();
    state.cost = state.drawn - begun;
    note.textContent = `Curves of ${plural(curves, "job")}${most}${chosen ? ", the chosen ones" : ""}.${lost ? ` ${plural(lost, "curve")} ${lost === 1 ? "has" : "have"} values that are not above 0, which a logarithmic axis leaves out.` : ""}${back ? ` ${state.x} goes back and forth in ${plural(back, "curve")}, so their colors have no mean.` : ""}${state.mean && state.smooth ? " Smoothed means have no interval." : state.mean ? " A mean is drawn where all jobs of its group have values; its band is the 95 % confidence interval over seeds. Where the seeds have different configurations, these count alike, and there is no interval." : ""}`;
  };
  const load = async () => {
    const points = Math.max(CURVE_POINTS[0], Math.min(CURVE_POINTS[1], 2 ** Math.floor(Math.log2(ALL_POINTS / Math.max(1, drawn().length)))));
    for (const chart of charts.values()) {
      const common = { y: chart.name, x: state.x, points, mean: state.mean || state.smooth > 0 };
      chart.whole = JSON.stringify(common);
      const request = state.range ? { ...common, from: state.range[0], to: state.range[1] } : common;
      chart.wanted = JSON.stringify(request);
      if (!chart.maps.has(chart.wanted)) {
        chart.maps.forEach((_, known) => { if (known !== chart.whole) chart.maps.delete(known); });
        chart.maps.set(chart.wanted, new Map());
      }
      const [wanted, known] = [chart.wanted, chart.maps.get(chart.wanted)];
      let failure = null;
      const missing = drawn().filter(({ key, state }) => ENDED.includes(state) && !known.has(key));
      missing.forEach(({ key }) => known.set(key, null));
      if (!missing.length) {
        render();
        continue;
      }
      await source.read(missing, request, (found) => {
        found.forEach((curve, key) => known.set(key, curve));
        if (chart.wanted === wanted && performance.now() - state.drawn > DRAWING_SHARE * state.cost) render();
        return chart.wanted === wanted;
      }).catch((error) => { failure = error; });
      if (chart.wanted === wanted) render();
      // Curves that were not read, because of a failure or of another range, are requested again.
      if (failure || chart.wanted !== wanted) missing.forEach(({ key }) => known.get(key) ?? known.delete(key));
      if (failure) note.textContent += ` Some could not be read: ${failure.message}.`;
      if (chart.wanted !== wanted) return;
    }
  };
  const refresh = () => {
    box.hidden = !source.names().length;
    if (box.hidden) return;
    save();
    classify();
    [...charts.keys()].filter((name) => !state.charts.includes(name)).forEach((name) => { charts.get(name).plot?.destroy(); charts.delete(name); });
    state.charts.slice(0, MAX_CHARTS).filter((name) => !charts.has(name)).forEach((name) => charts.set(name, fresh(name)));
    const figures = state.charts.slice(0, MAX_CHARTS).map((name) => charts.get(name).figure);
    if (figures.some((figure, index) => figure !== place.children[index]) || place.children.length !== figures.length) place.replaceChildren(...figures);
    render();
    load();
  };
  const chooses = (input, change) => input.addEventListener("input", () => { change(input); options(); refresh(); });
  chooses(add, ({ value }) => { if (value && state.charts.length < MAX_CHARTS) state.charts.push(value); });
  chooses(x, ({ value }) => { state.x = value; state.range = null; });
  chooses(tint, ({ value }) => { [state.color, state.base] = [value, ""]; });
  chooses(base, ({ value }) => { state.base = value; });
  chooses(mean, ({ checked }) => { state.mean = checked; });
  chooses(logX, ({ checked }) => { [state.logX, state.range] = [checked, null]; });
  chooses(logY, ({ checked }) => { state.logY = checked; charts.forEach((chart) => { chart.limits = null; }); });
  chooses(smooth, ({ value }) => { state.smooth = Number(value); });
  dark.addEventListener("change", () => refresh());
  // On paper charts have the width of the page.
  const resize = (width) => charts.forEach(({ plot, place }) => plot?.setSize({ width: width ?? Math.max(240, place.clientWidth), height: 280 }));
  window.addEventListener("beforeprint", () => resize(PAPER));
  window.addEventListener("afterprint", () => resize());
  // Drawing waits for the list, which answers at once.
  let waiting = 0;
  const update = () => {
    clearTimeout(waiting);
    waiting = setTimeout(() => { options(); refresh(); }, 30);
  };
  list.watch((found, picked, own) => {
    [rows, chosen] = [picked, own];
    update();
  });
  // Draws running jobs anew.
  return { update };
};
