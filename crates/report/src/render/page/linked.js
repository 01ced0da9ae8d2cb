// Plots of jobs that are linked with the list: parallel coordinates, a scatter plot, a heat map and the history of the best value. They
// show the jobs that pass the filter, and a range that is chosen in them becomes a word of the filter.
const PLOTS = [["", "no plot"], ["parallel", "parallel coordinates"], ["scatter", "scatter"], ["heat", "heat map"], ["best", "history of the best"], ["importance", "importance of axes"]];
const MAX_DIMENSIONS = 8;
const MAX_VALUES = 40;
const PLOT_HEIGHT = 320;
// Values beside an axis, and categories with a color of their own in a legend.
const MAX_MARKS = 12;
// A pointer that is so near to a dot or a line means it.
const NEAR = 12;
// A scale of a column from values to the unit interval and back: numbers linear or, from two orders of magnitude on, logarithmic; texts in
// their order. Its marks are shares with texts: all values if they are few, else some.
const unitScale = (column, rows) => {
  const values = rows.map(column.of).filter((value) => value !== null);
  const numbers = values.map(numeric);
  if (values.length && numbers.every((number) => number !== null)) {
    const [low, high] = extremes(numbers);
    // Rounding must not make a grid from 0.01 to 1 a linear one.
    const log = low > 0 && high / low > 99.99;
    const [of, back] = log ? [Math.log, Math.exp] : [(value) => value, (value) => value];
    const width = of(high) - of(low);
    const at = (value) => (value === null ? null : width ? (of(numeric(value)) - of(low)) / width : 0.5);
    const some = [...new Set(numbers)].sort((one, other) => one - other);
    // Values that are nearer to each other would be one over the other.
    const isApart = some.every((value, index) => index === 0 || at(value) - at(some[index - 1]) > 1 / MAX_MARKS);
    const between = () => (log ? logMarks(low, high) : evenMarks(low, high)).filter((value) => at(value) > 1 / MAX_MARKS && at(value) < 1 - 1 / MAX_MARKS);
    const marked = isApart ? some : [low, ...between(), high];
    const texts = marksOf(marked);
    return { low, high, at, values: some, back: (share) => back(of(low) + share * width), ends: marksOf([low, high]), marks: marked.map((value, index) => [at(value), texts[index]]) };
  }
  const names = [...new Set(values)].sort((one, other) => String(one).localeCompare(String(other), undefined, { numeric: true }));
  const places = new Map(names.map((name, index) => [name, names.length > 1 ? index / (names.length - 1) : 0.5]));
  const every = Math.ceil(names.length / MAX_MARKS);
  const marked = names.filter((_, index) => index % every === 0 || index === names.length - 1);
  return { names, at: (value) => places.get(value) ?? null, ends: [valueText(names[0] ?? ""), valueText(names.at(-1) ?? "")], marks: marked.map((name) => [places.get(name), valueText(name)]) };
};
// The title of an axis, whose marks are numbers: times in seconds.
const titleOf = ({ measure, title }) => measure ?? title;
// The number with the fewest digits, four at least, that divides the values of a scale as a share of it does: a value at the share is above
// it, or below it.
const divide = (scale, share, isAbove) => {
  const upper = scale.values.findIndex((value) => (isAbove ? scale.at(value) >= share : scale.at(value) > share));
  const [below, above] = upper < 0 ? [scale.high, Infinity] : [scale.values[upper - 1] ?? -Infinity, scale.values[upper]];
  for (let digits = 4; digits <= 17; digits += 1) {
    const rounded = Number(scale.back(share).toPrecision(digits));
    if (isAbove ? below < rounded && rounded <= above : below <= rounded && rounded < above) return rounded;
  }
  return Number.isFinite(isAbove ? above : below) ? (isAbove ? above : below) : scale.back(share);
};
// The word of the filter for a part of a scale: an empty one for all of it, and null for a part of texts without any.
const rangeWord = (scale, from, to) => {
  const [low, high] = [Math.min(from, to), Math.max(from, to)];
  if (scale.names) return scale.names.filter((name) => scale.at(name) >= low && scale.at(name) <= high).map(quoted).join("|") || null;
  // The ends of the scale are not rounded.
  return low <= 0 && high >= 1 ? "" : `${low <= 0 ? scale.low : divide(scale, low, true)}..${high >= 1 ? scale.high : divide(scale, high, false)}`.replaceAll("e+", "e");
};
const linkedPlots = (box, data, list) => {
  const asked = readAddress();
  // The name of a column in a filter: its identifier where the name means another one.
  const wordOf = (column) => (conditionOf(`${column.name}=`, [...OWN_COLUMNS, ...list.columns()])?.column === column ? column.name : column.id);
  const state = Object.fromEntries(["plot", "px", "py", "pcolor", "psize", "better"].map((name) => [name, asked.text(name)]));
  const [tools, legend, place, said, note] = [make("div", undefined, "choices"), make("ul", undefined, "choices keys"), make("div", undefined, "plots"), make("p", "", "note"), make("p", "", "note")];
  const inputs = {};
  [["plot", "Plot"], ["px", "x"], ["py", "y"], ["pcolor", "Color"], ["psize", "Size"], ["better", "Better"]].forEach(([name, text]) => {
    const label = make("label");
    inputs[name] = make("select");
    label.append(`${text} `, inputs[name]);
    tools.append(label);
    inputs[name].addEventListener("input", () => { state[name] = inputs[name].value; redraw(); });
  });
  box.append(make("h3", "Plots"), tools, legend, place, said, note);
  fill(inputs.plot, PLOTS, state.plot);
  let [found, dragging] = [[], false];
  const columnOf = (id) => list.columns().find((column) => column.id === id);
  const use = (name, columns, first, none) => {
    const pairs = columns.map(({ id, title }) => [id, title]);
    fill(inputs[name], none ? [["", none], ...pairs] : pairs, state[name] || first?.id || "");
    inputs[name].parentElement.hidden = false;
    return columnOf(inputs[name].value);
  };
  const canvas = (label) => {
    const [element, width] = [make("canvas"), Math.max(240, place.clientWidth)];
    const ratio = devicePixelRatio;
    Object.assign(element, { width: width * ratio, height: PLOT_HEIGHT * ratio });
    Object.assign(element.style, { width: `${width}px`, height: `${PLOT_HEIGHT}px`, display: "block" });
    element.setAttribute("role", "img");
    element.setAttribute("aria-label", label);
    const pen = element.getContext("2d");
    pen.scale(ratio, ratio);
    pen.font = FONT;
    place.replaceChildren(element);
    return [element, pen, width];
  };
  // Dragging tells the rectangle from its beginning to its end, a click only its place.
  const drag = (element, pen, dragged, clicked) => element.addEventListener("pointerdown", (event) => {
    const frame = element.getBoundingClientRect();
    const at = ({ clientX, clientY }) => [clientX - frame.left, clientY - frame.top];
    const begin = at(event);
    element.setPointerCapture(event.pointerId);
    dragging = true;
    element.addEventListener("lostpointercapture", () => { dragging = false; }, { once: true });
    const before = pen.getImageData(0, 0, element.width, element.height);
    const move = (event) => {
      const [x, y] = at(event);
      pen.putImageData(before, 0, 0);
      pen.globalAlpha = 0.2;
      pen.fillStyle = color("--busy");
      pen.fillRect(begin[0], begin[1], x - begin[0] || 2, y - begin[1]);
      pen.globalAlpha = 1;
    };
    element.addEventListener("pointermove", move);
    element.addEventListener("pointerup", (event) => {
      element.removeEventListener("pointermove", move);
      dragging = false;
      const end = at(event);
      if (Math.hypot(end[0] - begin[0], end[1] - begin[1]) < STILL) clicked(end);
      else dragged(begin, end);
    }, { once: true });
  });
  // Restricts the list to a range that was dragged, unless a column has no value in it.
  const restrict = (words) => {
    const [empty] = words.find(([, word]) => word === null) ?? [];
    if (empty) said.textContent = `${empty} has no value in this range.`;
    else list.restrict(words);
  };
  // The colors of a column, each with a value that has it.
  const showColors = (column, scale) => {
    const items = scale ? scale.marks.map(([share, text]) => {
      const [item, sample] = [make("li"), swatch(scaleColor(share))];
      item.append(sample, " ", text);
      return item;
    }) : [];
    legend.replaceChildren(...(items.length ? [make("li", `${titleOf(column)}:`), ...items] : []));
  };
  const swatch = (fill) => {
    const sample = draw("svg", { viewBox: "0 0 28 10", "aria-hidden": "true" });
    sample.append(draw("rect", { x: 0, y: 0, width: 28, height: 10, fill }));
    return sample;
  };
  // Says which job is under the pointer, with its values; `near` finds it.
  const hover = (element, near, columns) => {
    said.textContent = "\u00a0";
    element.addEventListener("pointermove", (event) => {
      if (dragging) return;
      const frame = element.getBoundingClientRect();
      const row = near([event.clientX - frame.left, event.clientY - frame.top]);
      const words = row ? columns.filter((column) => column.of(row) !== null).map((column) => `${column.title} ${column.text(column.of(row))}`) : [];
      said.textContent = row ? `${row.label} · ${words.join(" · ")}` : "\u00a0";
    });
    element.addEventListener("pointerleave", () => { said.textContent = "\u00a0"; });
  };
  const varied = () => list.columns().filter((column) => column.kind === "metric" || (column.kind === "axis" && column.first) || column.kind === "time");
  const metrics = () => list.columns().filter(({ kind }) => kind === "metric");
  const rest = () => { const shown = new Set(found); return list.rows().filter((row) => !shown.has(row)); };
  const fewer = (text, limit) => (text.length > limit ? `${text.slice(0, limit - 1)}…` : text);
  const parallel = () => {
    const tint = use("pcolor", varied(), metrics()[0] ?? varied()[0]);
    if (!tint) return;
    const others = varied().filter((column) => column.first && column.id !== tint.id && !data.seeds.includes(column.name));
    const dimensions = [...others.slice(0, MAX_DIMENSIONS - 1), tint];
    const scales = dimensions.map((column) => unitScale(column, list.rows()));
    const [element, pen, width] = canvas(`Parallel coordinates of ${plural(found.length, "job")} over ${dimensions.map(({ title }) => title).join(", ")}`);
    const [top, bottom, side] = [44, PLOT_HEIGHT - 26, Math.min(70, width / 8)];
    const x = (index) => side + (dimensions.length > 1 ? index / (dimensions.length - 1) : 0.5) * (width - 2 * side);
    const y = (share) => bottom - share * (bottom - top);
    const line = (row) => {
      pen.beginPath();
      dimensions.forEach((column, index) => {
        const share = scales[index].at(column.of(row));
        if (share !== null) pen.lineTo(x(index), y(share));
      });
      pen.stroke();
    };
    pen.strokeStyle = color("--line");
    pen.globalAlpha = 0.5;
    rest().forEach(line);
    pen.globalAlpha = found.length > 200 ? 0.4 : 0.8;
    found.forEach((row) => {
      const share = scales.at(-1).at(tint.of(row));
      pen.strokeStyle = share === null ? color("--soft") : scaleColor(share);
      line(row);
    });
    pen.globalAlpha = 1;
    pen.textAlign = "center";
    dimensions.forEach((column, index) => {
      pen.strokeStyle = pen.fillStyle = color("--ink");
      pen.fillRect(x(index) - 0.5, top, 1, bottom - top);
      const letters = Math.floor((width - 2 * side) / Math.max(1, dimensions.length - 1) / 7);
      pen.fillText(fewer(titleOf(column), Math.max(6, letters)), x(index), 16);
      pen.fillStyle = color("--soft");
      // The ends are above and below the axis, the others beside it.
      scales[index].marks.forEach(([share, text]) => {
        const isEnd = share === 0 || share === 1;
        pen.textAlign = isEnd ? "center" : "left";
        if (!isEnd) pen.fillRect(x(index) - 3, y(share) - 0.5, 6, 1);
        // Lines must not cross the letters.
        pen.strokeStyle = color("--raised");
        pen.lineWidth = 4;
        const at = [fewer(text, Math.max(10, letters)), isEnd ? x(index) : x(index) + 6, share === 1 ? top - 8 : share === 0 ? bottom + 16 : y(share) + 4];
        pen.strokeText(...at);
        pen.fillText(...at);
      });
      pen.textAlign = "center";
      pen.lineWidth = 1;
    });
    showColors(tint, scales.at(-1));
    // The line that is nearest to a place, between the two axes beside it.
    hover(element, ([at, height]) => {
      const right = dimensions.findIndex((_, index) => x(index) >= at);
      if (right <= 0) return null;
      const part = (at - x(right - 1)) / (x(right) - x(right - 1));
      let best = [NEAR, null];
      found.forEach((row) => {
        const [one, other] = [right - 1, right].map((index) => scales[index].at(dimensions[index].of(row)));
        if (one === null || other === null) return;
        const distance = Math.abs(y(one + (other - one) * part) - height);
        if (distance < best[0]) best = [distance, row];
      });
      return best[1];
    }, dimensions);
    const nearest = ([at]) => dimensions.map((_, index) => index).reduce((best, index) => (Math.abs(x(index) - at) < Math.abs(x(best) - at) ? index : best), 0);
    const share = (at) => (bottom - at) / (bottom - top);
    drag(element, pen, (begin, end) => {
      const index = nearest(begin);
      restrict([[wordOf(dimensions[index]), rangeWord(scales[index], share(begin[1]), share(end[1]))]]);
    }, (at) => list.restrict([[wordOf(dimensions[nearest(at)]), ""]]));
    note.textContent = "Drag along an axis to restrict the list and the curves to a range; a click on the axis ends that. The range is a word of the filter, which can be typed as well.";
  };
  const scatter = () => {
    const columns = varied();
    const [x, y] = [use("px", columns, columns[0]), use("py", columns, metrics()[0] ?? columns[0])];
    const [tint, size] = [use("pcolor", columns, null, "one color"), use("psize", columns, null, "one size")];
    if (!x || !y) return;
    const [sx, sy, st, ss] = [x, y, tint, size].map((column) => column && unitScale(column, list.rows()));
    const [element, pen, width] = canvas(`${y.title} over ${x.title} of ${plural(found.length, "job")}`);
    // The marks of the y axis have the room that they need beside its title.
    const texts = sy.marks.map(([, text]) => fewer(text, 20));
    const left = 42 + Math.max(28, ...texts.map((text) => pen.measureText(text).width));
    const [right, top, bottom] = [width - 16, 16, PLOT_HEIGHT - 44];
    const dot = (row) => {
      const [a, b] = [sx.at(x.of(row)), sy.at(y.of(row))];
      return a === null || b === null ? null : [left + a * (right - left), bottom - b * (bottom - top)];
    };
    const paint = (row, fill) => {
      const at = dot(row);
      if (!at) return;
      pen.beginPath();
      pen.arc(at[0], at[1], ss ? 2 + 7 * (ss.at(size.of(row)) ?? 0) : 4, 0, 2 * Math.PI);
      pen.fillStyle = fill;
      pen.fill();
    };
    pen.globalAlpha = 0.7;
    rest().forEach((row) => paint(row, color("--line")));
    found.forEach((row) => { const share = st?.at(tint.of(row)); paint(row, share === null || share === undefined ? color("--busy") : scaleColor(share)); });
    pen.globalAlpha = 1;
    pen.fillStyle = color("--soft");
    pen.fillRect(left - 8, bottom + 8, right - left + 8, 1);
    pen.fillRect(left - 8, top, 1, bottom - top + 8);
    // Texts of the x axis have the same room each; a number that would lie over another one is left out, the ends are not.
    const room = Math.floor((right - left) / Math.max(1, sx.marks.length) / 7);
    const taken = [];
    const isEnd = (share) => share === 0 || share === 1;
    [...sx.marks].sort(([one], [other]) => isEnd(other) - isEnd(one)).forEach(([share, mark]) => {
      const at = left + share * (right - left);
      const text = sx.names ? fewer(mark, Math.max(3, room)) : mark;
      const size = pen.measureText(text).width;
      const begin = share === 1 ? at - size : share === 0 ? at - 4 : at - size / 2;
      pen.fillRect(at - 0.5, bottom + 8, 1, 5);
      if (taken.some(([from, to]) => begin < to + 6 && begin + size > from - 6)) return;
      taken.push([begin, begin + size]);
      pen.textAlign = "left";
      pen.fillText(text, begin, bottom + 23);
    });
    pen.textAlign = "right";
    sy.marks.forEach(([share], index) => {
      const at = bottom - share * (bottom - top);
      pen.fillRect(left - 12, at - 0.5, 4, 1);
      pen.fillText(texts[index], left - 14, at + 4);
    });
    pen.fillStyle = color("--ink");
    pen.textAlign = "center";
    pen.fillText(titleOf(x), (left + right) / 2, PLOT_HEIGHT - 5);
    pen.save();
    pen.translate(14, (top + bottom) / 2);
    pen.rotate(-Math.PI / 2);
    pen.fillText(titleOf(y), 0, 0);
    pen.restore();
    showColors(tint, st);
    const nearest = (at) => {
      const near = found.map((row) => [dot(row), row]).filter(([dot]) => dot && Math.hypot(dot[0] - at[0], dot[1] - at[1]) < NEAR);
      near.sort(([one], [other]) => Math.hypot(one[0] - at[0], one[1] - at[1]) - Math.hypot(other[0] - at[0], other[1] - at[1]));
      return near[0]?.[1] ?? null;
    };
    hover(element, nearest, [...new Set([x, y, tint, size].filter(Boolean))]);
    drag(element, pen, (begin, end) => {
      const [across, up] = [(at) => (at - left) / (right - left), (at) => (bottom - at) / (bottom - top)];
      restrict([[wordOf(x), rangeWord(sx, across(begin[0]), across(end[0]))], ...(x === y ? [] : [[wordOf(y), rangeWord(sy, up(begin[1]), up(end[1]))]])]);
    }, (at) => {
      const row = nearest(at);
      if (row) box.dispatchEvent(new CustomEvent("job", { bubbles: true, detail: row.label }));
    });
    note.textContent = `${ss ? `Size: ${titleOf(size)} from ${ss.ends[0]} to ${ss.ends[1]}. ` : ""}Drag to restrict the list and the curves; a click on a dot opens its job.`;
  };
  const heat = () => {
    const axes = list.columns().filter(({ kind, first }) => kind === "axis" && first);
    const [x, value] = [use("px", axes, axes[0]), use("pcolor", [...metrics(), columnOf("time")], metrics()[0])];
    const y = use("py", axes.filter((column) => column !== x), axes.find((column) => column !== x));
    if (!x || !y || !value) { place.replaceChildren(make("p", "A heat map needs two axes with several values.", "note")); return; }
    const names = [x, y].map((column) => [...new Set(found.map(column.of).filter((name) => name !== null))].sort(order((name) => name, false)));
    const [across, down] = names.map((list) => list.slice(0, MAX_VALUES));
    // Cells have the means of groups.
    const cells = new Map([...groupBy(found, (row) => JSON.stringify([x.of(row), y.of(row)]))].map(([place, rows]) => [place, summary(rows, value, data)]));
    const means = [...cells.values()].filter(Boolean).map(({ mean }) => (value.log ? Math.log(mean) : mean));
    const [low, high] = extremes(means);
    const table = make("table", undefined, "heat");
    const head = make("tr");
    const heading = (text, scope) => { const cell = make("th", text); cell.scope = scope; return cell; };
    head.append(make("td", `${y.title} \\ ${x.title}`), ...across.map((name) => heading(valueText(name), "col")));
    table.createTHead().append(head);
    const body = table.createTBody();
    down.forEach((name) => {
      const line = make("tr");
      line.append(heading(valueText(name), "row"), ...across.map((other) => {
        const mean = cells.get(JSON.stringify([other, name]));
        const cell = make("td");
        if (!mean) return cell;
        const button = make("button", meanText(value, { ...mean, half: null }));
        button.type = "button";
        button.title = mean.about;
        const share = high > low ? ((value.log ? Math.log(mean.mean) : mean.mean) - low) / (high - low) : 0.5;
        cell.style.background = `hsl(210 65% ${dark.matches ? 14 + 18 * share : 96 - 28 * share}%)`;
        button.addEventListener("click", () => list.restrict([[wordOf(x), quoted(other)], [wordOf(y), quoted(name)]]));
        cell.append(button);
        return cell;
      }));
      body.append(line);
    });
    const scroll = region(make("div", undefined, "scroll"), `${value.title} by ${x.title} and ${y.title}`);
    scroll.append(table);
    place.replaceChildren(scroll);
    const left = names.some((list) => list.length > MAX_VALUES) ? ` The first ${MAX_VALUES} values of an axis are shown.` : "";
    note.textContent = `${value.log ? "Geometric mean" : "Mean"} of ${value.title} over the jobs of each cell, as of groups; darker or brighter cells have higher values. A click on a cell restricts the list and the curves to it.${left}`;
  };
  const best = () => {
    const value = use("py", [...metrics(), columnOf("time")], metrics()[0]);
    if (!value) return;
    fill(inputs.better, [["low", "lower"], ["high", "higher"]], state.better || (value.better === "max" ? "high" : "low"));
    inputs.better.parentElement.hidden = false;
    const rows = found.filter((row) => resultOf(value)(row) !== null && row.ended).sort((one, other) => one.ended - other.ended);
    if (!rows.length) { place.replaceChildren(make("p", "No job has a result.", "note")); return; }
    const is = inputs.better.value === "high" ? (one, other) => one > other : (one, other) => one < other;
    const line = { name: "best", color: "--bad", step: true, x: [], y: [] };
    rows.forEach((row, index) => {
      const last = line.y.at(-1);
      line.x.push(index + 1);
      line.y.push(last === undefined || is(value.of(row), last) ? value.of(row) : last);
    });
    const dots = { name: "jobs", color: "--busy", dots: true, x: rows.map((_, index) => index + 1), y: rows.map(value.of), jobs: rows.map(({ label }) => label) };
    place.replaceChildren(drawChart(titleOf(value), { x: { label: "finished jobs", whole: true }, y: { label: titleOf(value) }, series: [dots, line] }, false).box);
    note.textContent = "The line is the best value of the jobs that had finished.";
  };
  // The share of the variance of the configurations' means that the means by each of their axes explain.
  const importance = () => {
    const value = use("py", [...metrics(), columnOf("time")], metrics()[0]);
    if (!value) return;
    const rows = found.filter((row) => resultOf(value)(row) !== null);
    // Squares of large and of small numbers are no numbers.
    const [least, most] = extremes(rows.map(scaledOf(value)));
    const parts = groupsOf(rows, CONFIGURATION, data.seeds).map((group) => [group.rows[0], meanOf(group.rows.map((row) => (scaledOf(value)(row) - least) / (most - least)))]);
    const mean = meanOf(parts.map(([, own]) => own));
    const whole = parts.reduce((sum, [, own]) => sum + (own - mean) ** 2, 0);
    if (parts.length < 2 || !(whole > 0 && whole < Infinity)) { place.replaceChildren(make("p", "The configurations have no different values.", "note")); return; }
    const axes = list.columns().filter(({ kind, first, name }) => kind === "axis" && first && !data.seeds.includes(name));
    const shares = axes.map((column) => [column, [...groupBy(parts, ([row]) => column.of(row)).values()].reduce((sum, part) => sum + part.length * (meanOf(part.map(([, own]) => own)) - mean) ** 2, 0) / whole]);
    shares.sort(([, one], [, other]) => other - one);
    const table = make("table", undefined, "shares");
    const [head, body] = [table.createTHead().insertRow(), table.createTBody()];
    ["Axis", "Share", ""].forEach((text) => head.append(Object.assign(make(text ? "th" : "td", text), text ? { scope: "col" } : {})));
    shares.forEach(([column, share]) => {
      const [line, name, bar] = [body.insertRow(), make("th", column.title), draw("svg", { viewBox: "0 0 100 8", preserveAspectRatio: "none", class: "bar", "aria-hidden": "true" })];
      name.scope = "row";
      bar.append(draw("rect", { x: 0, y: 0, width: 100 * share, height: 8, class: "fill-running" }));
      const place = make("td");
      place.append(bar);
      line.append(name, make("td", `${(100 * share).toFixed(1)} %`), place);
    });
    const scroll = region(make("div", undefined, "scroll"), `Importance of axes for ${value.title}`);
    scroll.append(table);
    place.replaceChildren(scroll);
    // Of a whole grid the shares of axes are apart.
    const isWhole = axes.reduce((product, { of }) => product * new Set(parts.map(([row]) => of(row))).size, 1) === parts.length;
    note.textContent = `The share of the variance of ${value.log ? "the logarithm of " : ""}${value.title} among the means of ${plural(parts.length, "configuration")} over their seeds that the means by each axis explain. What is left is that of axes together.${isWhole ? "" : " The configurations are not all combinations of their axes, so shares overlap."} Tables of effects in a recipe test them.`;
  };
  const kinds = { parallel, scatter, heat, best, importance };
  const redraw = () => {
    // A canvas that is drawn anew would lose the pointer.
    if (dragging) { later(); return; }
    const [first, ...others] = Object.values(inputs);
    others.forEach((input) => { input.parentElement.hidden = true; });
    fill(first, PLOTS, state.plot);
    note.textContent = said.textContent = "";
    legend.replaceChildren();
    place.replaceChildren();
    kinds[first.value]?.();
    writeAddress(state);
  };
  let [waiting, wide] = [0, null];
  const later = () => { clearTimeout(waiting); waiting = setTimeout(redraw, 50); };
  dark.addEventListener("change", later);
  new ResizeObserver(([{ contentRect: { width } }]) => { if (wide !== null && wide !== width) later(); wide = width; }).observe(box);
  list.watch((rows) => { found = rows; later(); });
};
