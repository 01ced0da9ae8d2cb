// The rows of a list of jobs: their axes, the columns of their values, filters and groups.
const NUMBER = /^[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?$/i;
const numeric = (text) => (typeof text === "number" ? text : NUMBER.test(text) ? Number(text) : null);
// The values of the point `lr=0.1,seed=2` by axis. A comma ends a value only before the name of another axis and `=`. Runs of earlier versions
// have no names: there any name is one.
const axesOf = (point, names) => {
  const [axes, isName] = [new Map(), (name) => !names?.length || names.includes(name)];
  let name = null;
  point.split(",").forEach((part) => {
    const at = part.indexOf("=");
    const found = at < 0 ? null : part.slice(0, at);
    if (found !== null && (names?.length || name === null || /^[\w.-]+$/.test(found)) && isName(found) && !axes.has(found)) axes.set(name = found, part.slice(at + 1));
    else if (name !== null) axes.set(name, `${axes.get(name)},${part}`);
  });
  return axes;
};
const readRows = (data) => data.jobs.map(([step, point, state, key, seconds, cells, says, ended, tags], index) => ({
  index, step: data.steps[step], point, axes: axesOf(point, data.axes), state: data.states[state], key, seconds, cells: cells ?? [], says: says ?? "", ended, tags: tags ?? [],
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
  const metrics = data.columns.map(([title, name, better], index) => ({ id: `metric:${name}`, kind: "metric", name, title, better, first: index < data.shown && filled[index], of: (row) => row.cells[index] ?? null }));
  return [...axes, ...metrics, { id: "time", kind: "time", name: "time", title: "Time", first: rows.some((row) => row.seconds !== null && row.seconds !== undefined), of: (row) => row.seconds ?? null }];
};
// The names by which a filter finds a column: as in queries, as in the address of the page, and its heading with and without the unit.
const namesOf = ({ name, id, title }) => [...new Set([name, id, title, title?.replace(/ \([^()]*\)$/, "")])].filter((known) => known);
// Numbers by size, texts by letters, and missing values last in both directions.
const order = (of, down) => (one, other) => {
  const [a, b] = [of(one), of(other)];
  if (a === null || b === null) return (a === null) - (b === null);
  const [x, y] = [numeric(a), numeric(b)];
  const sign = x !== null && y !== null ? x - y : String(a).localeCompare(String(b), undefined, { numeric: true });
  return down ? -sign : sign;
};

// A filter of words: `lr=0.01` `seed!=2` `loss<2.5` `lr=0.001..0.1` `state=failed|lost` and texts. Answers a test of rows, the remarks on
// words that mean nothing here, and those on values that no job has.
const COMPARISONS = { "<": (a, b) => a < b, ">": (a, b) => a > b, "<=": (a, b) => a <= b, ">=": (a, b) => a >= b };
const alike = (value, wanted) => {
  if (value === null) return false;
  const [x, y] = [numeric(value), numeric(wanted)];
  if (typeof value === "number") return y !== null && (value === y || shown(value) === wanted);
  return x !== null && y !== null ? x === y : value.toLowerCase() === wanted.toLowerCase();
};
// An alternative of a value: a text in quotes as it is, else a value or a range, of which one end may be open.
const alternative = ([part, isLiteral]) => {
  const ends = isLiteral ? [] : part.split("..");
  const [low, high] = ends.length === 2 && ends.some((end) => end !== "") ? [ends[0] === "" ? -Infinity : numeric(ends[0]), ends[1] === "" ? Infinity : numeric(ends[1])] : [null, null];
  if (low === null || high === null) return (value) => alike(value, part);
  return (value) => alike(value, part) || (value !== null && numeric(value) !== null && numeric(value) >= low && numeric(value) <= high);
};
// Quotes keep a word, or a value after an operator, with blanks together; `\"` in them is a quote.
const WORDS = /(?:(?<=^|[\s=<>|])"(?:[^"\\]|\\.)*"(?=$|[\s|])|\S)+/gs;
const CONDITION = /^:?(<=|>=|!=|<|>|=)(.*)$/s;
const VALUES = /"((?:[^"\\]|\\.)*)"(?=\||$)|[^|]+/gs;
const unquoted = (text) => text.replace(/\\(["\\])/g, "$1");
const inQuotes = (text) => `"${text.replace(/["\\]/g, "\\$&")}"`;
const quoted = (text) => (text === "" || /[\s"|]|\.\./.test(text) ? inQuotes(text) : text);
const isWhole = (word) => /^"(?:[^"\\]|\\.)*"$/s.test(word);
const plainWord = (word) => (isWhole(word) ? unquoted(word.slice(1, -1)) : word);
// The column that a word is about, with the operator and the value. Of the names that it begins with, the longest one counts: names may
// have any letters.
const conditionOf = (word, columns) => {
  const lower = word.toLowerCase();
  const found = columns.flatMap((column) => namesOf(column).map((name) => {
    const condition = lower.startsWith(name.toLowerCase()) && word.slice(name.length).match(CONDITION);
    return condition ? { length: name.length, column, operator: condition[1], value: condition[2] } : null;
  }));
  return found.reduce((best, other) => (other && (!best || other.length > best.length) ? other : best), null);
};
const filterWords = (text, columns) => {
  const isName = (word) => columns.some((column) => namesOf(column).some((name) => name.toLowerCase() === word.toLowerCase()));
  const isOpen = (word) => isName(word.replace(/:?(<=|>=|!=|<|>|=)$/, "")) && !isName(word);
  // Blanks around an operator belong to its word.
  return (text.match(WORDS) ?? []).reduce((words, word) => {
    const last = words.length ? plainWord(words.at(-1)) : null;
    const belongs = last !== null && (isOpen(last) || (isName(last) && CONDITION.test(word)));
    if (belongs) words[words.length - 1] = isWhole(words.at(-1)) ? inQuotes(last + word) : last + word;
    else words.push(word);
    return words;
  }, []);
};
const OWN_COLUMNS = [{ name: "state", of: (row) => row.state }, { name: "step", of: (row) => row.step }, { name: "tag", all: (row) => row.tags }];
const MAX_VALUES_NAMED = 8;
const compileFilter = (text, columns, rows = []) => {
  const [tests, remarks, unmet] = [[], [], []];
  const known = [...OWN_COLUMNS, ...columns];
  for (const raw of filterWords(text, known)) {
    const word = plainWord(raw);
    const part = word.toLowerCase();
    const { column, operator, value } = conditionOf(word, known) ?? {};
    // A value in quotes of its own is not divided.
    const wanted = value === undefined ? [] : [...value.matchAll(VALUES)].map(([all, inner]) => (inner === undefined ? [all, false] : [unquoted(inner), true]));
    if (!column) {
      const name = word.match(/^([^<>=].*?):?(<=|>=|!=|<|>|=)/s)?.[1];
      if (name && raw === word) remarks.push(`${name} is not an axis or metric of these jobs`);
      tests.push((row) => row.label.toLowerCase().includes(part) || row.key.startsWith(part) || row.says.toLowerCase().includes(part));
    } else if (!wanted.length) {
      remarks.push(`a value is missing after ${word}`);
    } else if (operator === "=" || operator === "!=") {
      const fits = column.all ? null : [[value, true], ...wanted].map(alternative);
      const has = column.all ? (row) => column.all(row).some((own) => wanted.some(([name]) => name.toLowerCase() === own.toLowerCase())) : (row) => fits.some((fit) => fit(column.of(row)));
      tests.push(operator === "=" ? has : (row) => !has(row));
      if (operator === "=" && rows.length && !rows.some(has)) {
        const values = column.values?.length <= MAX_VALUES_NAMED ? `, which is ${column.values.map(valueText).join(", ")}` : "";
        unmet.push(`no job has this ${column.name}${values}`);
      }
    } else if (column.all || numeric(value) === null) {
      remarks.push(column.all ? `${column.name} is compared with = or !=` : `${word} needs a number after ${operator}`);
    } else {
      const [compare, limit] = [COMPARISONS[operator], numeric(value)];
      tests.push((row) => {
        const own = column.of(row);
        return own !== null && numeric(own) !== null && compare(numeric(own), limit);
      });
    }
  }
  return { fits: (row) => tests.every((test) => test(row)), remarks, unmet };
};

// Groups of jobs in their first order: by configuration, which is all axes but the seeds, or by an axis; those of two steps are apart.
const CONFIGURATION = "configuration";
const withoutSeeds = (row, seeds) => [...row.axes].filter(([name]) => !seeds.includes(name)).map(([name, value]) => `${name}=${value}`).join(",");
const groupsOf = (rows, by, seeds) => {
  const groups = new Map();
  rows.forEach((row) => {
    const axes = new Map([...row.axes].filter(([name]) => (by === CONFIGURATION ? !seeds.includes(name) : name === by)));
    const point = [...axes].map(([name, value]) => `${name}=${value}`).join(",");
    const label = point ? `${row.step}/${point}` : row.step;
    if (!groups.has(label)) groups.set(label, { label, step: row.step, axes, rows: [] });
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
// The parts whose means have the same weight in a mean: the seeds, or, where these differ in their configurations, the configurations.
// A configuration that lacks a seed then counts as much as the others.
const partsOf = (rows, seeds) => {
  const units = unitsOf(rows, seeds);
  return { units, parts: units ?? groupsOf(rows, CONFIGURATION, seeds).map((group) => group.rows) };
};
const meanOf = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;
// Half the width of the 95 % confidence interval of a mean, by Student's t. Equal values say nothing about their spread.
const halfOf = (values, quantiles) => {
  const [count, mean] = [values.length, meanOf(values)];
  if (count < 2) return null;
  const variance = values.reduce((sum, value) => sum + (value - mean) ** 2, 0) / (count - 1);
  if (Math.sqrt(variance) <= 1e-12 * Math.abs(mean)) return null;
  // The quantile of the largest number of degrees of freedom that is known is above those of more.
  return quantiles[Math.min(count - 1, quantiles.length) - 1] * Math.sqrt(variance / count);
};
// The mean over the jobs that have a value, with its interval over seeds.
const summary = (rows, of, data) => {
  const found = rows.filter((row) => of(row) !== null);
  if (!found.length) return null;
  const { units, parts } = partsOf(found, data.seeds);
  const [values, count] = [parts.map((part) => meanOf(part.map(of))), { found: found.length, all: rows.length }];
  const lacking = found.length < rows.length ? `; ${plural(rows.length - found.length, "job")} without a value` : "";
  if (!units) {
    const reason = data.seeds.length ? "not every seed has the same configurations, which count alike" : "there is no axis of seeds";
    return { mean: meanOf(values), half: null, ...count, about: `mean of ${plural(found.length, "job")}, without an interval: ${reason}${lacking}` };
  }
  const half = halfOf(values, data.quantiles);
  const interval = half !== null ? " with its 95 % confidence interval" : values.length > 1 ? ", without an interval: all values are equal, so their spread is unknown" : "";
  return { mean: meanOf(values), half, ...count, about: `mean of ${plural(values.length, "seed")}${interval}${lacking}` };
};
