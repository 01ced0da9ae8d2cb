// The rows of a list of jobs: their axes, the columns of their values, filters and groups.
const NUMBER = /^[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?$/i;
const numeric = (text) => (typeof text === "number" ? text : NUMBER.test(text) ? Number(text) : null);
// The values of the point `lr=0.1,seed=2` by axis. A comma ends a value only before another name and `=`.
const axesOf = (point) => new Map(point.split(/,(?=[\w.-]+=)/).filter((part) => part.includes("=")).map((part) => {
  const at = part.indexOf("=");
  return [part.slice(0, at), part.slice(at + 1)];
}));
const readRows = (data) => data.jobs.map(([step, point, state, key, seconds, cells, says, ended, tags], index) => ({
  index, step: data.steps[step], point, axes: axesOf(point), state: data.states[state], key, seconds, cells: cells ?? [], says: says ?? "", ended, tags: tags ?? [],
  label: point ? `${data.steps[step]}/${point}` : data.steps[step],
}));
// All columns: the axes, the metrics and the time, each with its identifier, heading and value.
const readColumns = (data, rows) => {
  const values = new Map();
  rows.forEach((row) => row.axes.forEach((value, name) => {
    if (!values.has(name)) values.set(name, new Set());
    values.get(name).add(value);
  }));
  const axes = [...values].map(([name, found]) => ({ id: `axis:${name}`, kind: "axis", name, title: name, values: [...found], first: found.size > 1, of: (row) => row.axes.get(name) ?? null }));
  const filled = data.columns.map(() => false);
  rows.forEach((row) => row.cells.forEach((cell, index) => { filled[index] ||= cell !== null; }));
  const metrics = data.columns.map(([title, name], index) => ({ id: `metric:${name}`, kind: "metric", name, title, first: index < data.shown && filled[index], of: (row) => row.cells[index] ?? null }));
  return [...axes, ...metrics, { id: "time", kind: "time", name: "time", title: "Time", first: rows.some((row) => row.seconds !== null && row.seconds !== undefined), of: (row) => row.seconds ?? null }];
};
// Numbers by size, texts by letters, and missing values last in both directions.
const order = (of, down) => (one, other) => {
  const [a, b] = [of(one), of(other)];
  if (a === null || b === null) return (a === null) - (b === null);
  const [x, y] = [numeric(a), numeric(b)];
  const sign = x !== null && y !== null ? x - y : String(a).localeCompare(String(b), undefined, { numeric: true });
  return down ? -sign : sign;
};

// A filter of words: `lr=0.01` `seed!=2` `loss<2.5` `lr=0.001..0.1` `state=failed|lost` and texts. Answers a test of rows and the remarks on
// words that mean nothing here.
const COMPARISONS = { "<": (a, b) => a < b, ">": (a, b) => a > b, "<=": (a, b) => a <= b, ">=": (a, b) => a >= b };
const alike = (value, wanted) => {
  if (value === null) return false;
  const [x, y] = [numeric(value), numeric(wanted)];
  if (typeof value === "number") return y !== null && (value === y || shown(value) === wanted);
  return x !== null && y !== null ? x === y : value.toLowerCase() === wanted.toLowerCase();
};
const oneOf = (wanted) => {
  const parts = wanted.split("|").map((part) => {
    const ends = part.split("..");
    const [low, high] = ends.length === 2 ? ends.map(numeric) : [null, null];
    if (low === null || high === null) return (value) => alike(value, part);
    return (value) => value !== null && numeric(value) !== null && numeric(value) >= low && numeric(value) <= high;
  });
  return (value) => alike(value, wanted) || parts.some((part) => part(value));
};
const CONDITION = /^:?(<=|>=|!=|<|>|=)(.*)$/s;
const WORDS = /(?:"[^"]*"|[^\s"])+/g;
const compileFilter = (text, columns) => {
  const [tests, remarks] = [[], []];
  const known = [{ name: "state", of: (row) => row.state }, { name: "step", of: (row) => row.step }, { name: "tag", all: (row) => row.tags }, ...columns];
  for (const raw of text.match(WORDS) ?? []) {
    const word = raw.replaceAll('"', "");
    const part = word.toLowerCase();
    // Of the names that a word begins with, the longest one counts: names may have any letters.
    const [, column, operator, wanted] = known.flatMap((column) => [column.name, column.id].map((name) => {
      const condition = name !== undefined && part.startsWith(name.toLowerCase()) && word.slice(name.length).match(CONDITION);
      return condition ? [name.length, column, condition[1], condition[2]] : null;
    })).reduce((best, other) => (other && (!best || other[0] > best[0]) ? other : best), null) ?? [];
    if (!column) {
      const name = word.match(/^([^<>=!]+?):?[<>=!]/)?.[1];
      if (name) remarks.push(`${name} is no axis or metric of these jobs`);
      tests.push((row) => row.label.toLowerCase().includes(part) || row.key.startsWith(part) || row.says.toLowerCase().includes(part));
    } else if (wanted === "") {
      remarks.push(`a value is missing after ${word}`);
    } else if (operator === "=" || operator === "!=") {
      const fits = column.all ? null : oneOf(wanted);
      const has = (row) => column.all(row).some((value) => wanted.split("|").some((part) => part.toLowerCase() === value.toLowerCase()));
      if (column.all) tests.push(operator === "=" ? has : (row) => !has(row));
      else tests.push(operator === "=" ? (row) => fits(column.of(row)) : (row) => !fits(column.of(row)));
    } else if (column.all || numeric(wanted) === null) {
      remarks.push(column.all ? `${column.name} is compared with = or !=` : `${word} needs a number after ${operator}`);
    } else {
      const [compare, limit] = [COMPARISONS[operator], numeric(wanted)];
      tests.push((row) => {
        const value = column.of(row);
        return value !== null && numeric(value) !== null && compare(numeric(value), limit);
      });
    }
  }
  return { fits: (row) => tests.every((test) => test(row)), remarks };
};

// Groups of jobs in their first order: by configuration, which is all axes but the seeds, or by an axis; those of two steps are apart.
const CONFIGURATION = "configuration";
const withoutSeeds = (row, seeds) => [...row.axes].filter(([name]) => !seeds.includes(name)).map(([name, value]) => `${name}=${value}`).join(",");
const groupsOf = (rows, by, seeds) => {
  const groups = new Map();
  rows.forEach((row) => {
    const point = by === CONFIGURATION ? withoutSeeds(row, seeds) : row.axes.has(by) ? `${by}=${row.axes.get(by)}` : "";
    const label = point ? `${row.step}/${point}` : row.step;
    if (!groups.has(label)) groups.set(label, { label, axes: axesOf(point), rows: [] });
    groups.get(label).rows.push(row);
  });
  return [...groups.values()];
};
// The independent units of jobs: the jobs of each seed. If jobs differ in more than the seed, the configurations are averaged within
// each seed, which needs the same ones in all: otherwise, and without seeds, there is no unit.
const unitsOf = (rows, seeds) => {
  const units = new Map();
  rows.forEach((row) => {
    const seed = seeds.filter((name) => row.axes.has(name)).map((name) => row.axes.get(name)).join(",");
    if (seed === "") return;
    if (!units.has(seed)) units.set(seed, new Map());
    units.get(seed).set(withoutSeeds(row, seeds), row);
  });
  const [first, ...others] = [...units.values()];
  const even = first !== undefined && others.every((unit) => unit.size === first.size && [...unit.keys()].every((key) => first.has(key)));
  const counted = [...units.values()].reduce((sum, unit) => sum + unit.size, 0);
  return even && counted === rows.length ? [...units.values()].map((unit) => [...unit.values()]) : null;
};
const meanOf = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;
// Half the width of the 95 % confidence interval of a mean, by Student's t.
const halfOf = (values, quantiles) => {
  const [count, mean] = [values.length, meanOf(values)];
  if (count < 2) return null;
  const variance = values.reduce((sum, value) => sum + (value - mean) ** 2, 0) / (count - 1);
  // The quantile of the largest number of degrees of freedom that is known is above those of more.
  return quantiles[Math.min(count - 1, quantiles.length) - 1] * Math.sqrt(variance / count);
};
// The mean over the jobs that have a value, with its interval over seeds.
const summary = (rows, of, data) => {
  const found = rows.filter((row) => of(row) !== null);
  if (!found.length) return null;
  const units = unitsOf(found, data.seeds);
  if (!units) return { mean: meanOf(found.map(of)), half: null, about: `mean of ${plural(found.length, "job")}, without an interval: ${data.seeds.length ? "not every seed has the same configurations" : "there is no axis of seeds"}` };
  const values = units.map((unit) => meanOf(unit.map(of)));
  return { mean: meanOf(values), half: halfOf(values, data.quantiles), about: `mean of ${plural(values.length, "seed")}${values.length > 1 ? " with its 95 % confidence interval" : ""}` };
};
