// The rows of a list of jobs: their axes, the columns of their values, filters and groups.
const NUMBER = /^[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?$/i;
const numeric = (text) => (typeof text === "number" ? text : NUMBER.test(text) ? Number(text) : null);
// Below zero, zero or above it, as the first of two numbers is below, equal to or above the second one, whole ones of any size exactly; null
// if one is no number.
const INTEGER = /^[-+]?\d+$/;
const signOf = (one, other) => {
  const [x, y] = INTEGER.test(one) && INTEGER.test(other) ? [one, other].map((text) => BigInt(String(text).replace("+", ""))) : [numeric(one), numeric(other)];
  return x === null || y === null ? null : x < y ? -1 : Number(x > y);
};
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
// A point is a text, or a list of axes with their values if the text cannot be divided at its commas.
const readRows = (data) => data.jobs.map(([step, place, state, key, seconds, cells, says, ended, tags], index) => {
  const axes = typeof place === "string" ? axesOf(place, data.axes) : new Map(place);
  const point = typeof place === "string" ? place : place.map(([name, value]) => `${name}=${value}`).join(",");
  return {
    index, step: data.steps[step], point, axes, state: data.states[state], key, seconds, cells: cells ?? [], says: says ?? "", ended, tags: tags ?? [],
    label: point ? `${data.steps[step]}/${point}` : data.steps[step],
  };
});
// All columns: the axes, the metrics and the time, each with its identifier, heading and value.
const readColumns = (data, rows) => {
  const values = new Map();
  rows.forEach((row) => row.axes.forEach((value, name) => {
    if (!values.has(name)) values.set(name, new Set());
    values.get(name).add(value);
  }));
  const axes = [...values].map(([name, found]) => ({ id: `axis:${name}`, kind: "axis", name, title: name, values: [...found], first: found.size > 1, of: (row) => row.axes.get(name) ?? null, text: valueText }));
  const metrics = data.columns.map(([title, name, better, isTiming], index) => {
    const found = rows.map(({ cells }) => cells[index] ?? null).filter((value) => value !== null);
    const shared = sharedDigits(found);
    return { id: `metric:${name}`, kind: "metric", name, title, better, first: index < data.shown && found.length > 0, log: isTiming && found.every((value) => value > 0), of: (row) => row.cells[index] ?? null, text: (value) => listed(value, shared) };
  });
  const result = ({ state, seconds }) => (["done", "cached"].includes(state) ? seconds ?? null : null);
  const time = { id: "time", kind: "time", name: "time", title: "Time", measure: "Time (s)", first: rows.some(({ seconds }) => (seconds ?? null) !== null), log: rows.every((row) => result(row) === null || result(row) > 0), of: (row) => row.seconds ?? null, result, text: span };
  return [...axes, ...metrics, time];
};
// The names by which a filter finds a column: as in the address of the page, as in queries, and its heading with and without the unit.
const namesOf = ({ name, id, title }) => [...new Set([id, name, title, title?.replace(/ \([^()]*\)$/, "")])].filter((known) => known);
// Numbers by size, texts by letters, and missing values last in both directions.
const order = (of, down) => (one, other) => {
  const [a, b] = [of(one), of(other)];
  if (a === null || b === null) return (a === null) - (b === null);
  const sign = signOf(a, b) ?? String(a).localeCompare(String(b), undefined, { numeric: true });
  return down ? -sign : sign;
};

// A filter of words: `lr=0.01` `seed!=2` `loss<2.5` `lr=0.001..0.1` `state=failed|lost` and texts. Answers a test of rows, the remarks on
// words that mean nothing here, and those on values that no job has.
const COMPARISONS = { "<": (sign) => sign < 0, ">": (sign) => sign > 0, "<=": (sign) => sign <= 0, ">=": (sign) => sign >= 0 };
// The digits of a number from its first one that is not zero on.
const digitsOf = (text) => text.replace(/e.*$/i, "").replace(/^[-+0.]*/, "").replace(".", "").length;
// True if a value is `wanted`: a metric also if it is rounded to the digits of `wanted`, of which there are three at least, or as the list
// shows it. Capitals count if a job has the value with these (`isKnown`).
const MISSING = "–";
const alike = (value, wanted, isKnown, column) => {
  // The sign of tables for a value that a job does not have.
  if (value === null) return wanted === MISSING;
  const [y, digits] = [numeric(wanted), digitsOf(wanted)];
  if (typeof value === "number") return y !== null && (value === y || (digits >= 3 && Number(value.toPrecision(Math.min(digits, 100))) === y) || shown(value) === wanted || column.text(value) === wanted);
  const sign = signOf(value, wanted);
  if (sign !== null) return sign === 0;
  return isKnown ? value === wanted : value.toLowerCase() === wanted.toLowerCase();
};
// An alternative of a value: a text in quotes as it is, else a value or a range, of which one end may be open.
const alternative = (column, rows) => ([part, isLiteral]) => {
  const ends = isLiteral ? [] : part.split("..");
  const isRange = ends.length === 2 && ends.some((end) => end !== "") && ends.every((end) => end === "" || numeric(end) !== null);
  const isKnown = rows.some((row) => column.of(row) === part);
  const is = (value) => alike(value, part, isKnown, column);
  if (!isRange) return is;
  return (value) => is(value) || (value !== null && numeric(value) !== null && (ends[0] === "" || signOf(value, ends[0]) >= 0) && (ends[1] === "" || signOf(value, ends[1]) <= 0));
};
// Quotes keep a word, or a value after an operator, with blanks together; `\"` in them is a quote.
const WORDS = /(?:(?<=^|\s)"(?:[^"\\]|\\.)*"(?=$|[\s|:<>=!])|(?<=[=<>|])"(?:[^"\\]|\\.)*"(?=$|[\s|])|\S)+/gs;
const CONDITION = /^:?(<=|>=|!=|<|>|=)(.*)$/s;
const VALUES = /"((?:[^"\\]|\\.)*)"(?=\||$)|[^|]+/gs;
const unquoted = (text) => text.replace(/\\(["\\])/g, "$1");
const inQuotes = (text) => `"${text.replace(/["\\]/g, "\\$&")}"`;
const quoted = (text) => (text === "" || /[\s"|]|\.\./.test(text) ? inQuotes(text) : text);
const isWhole = (word) => /^"(?:[^"\\]|\\.)*"$/s.test(word);
// A name in quotes may have an operator behind it.
const NAMED = /^"((?:[^"\\]|\\.)*)"(:?(?:<=|>=|!=|<|>|=).*)$/s;
const plainWord = (word) => {
  const [, name, rest] = word.match(NAMED) ?? [];
  return name !== undefined ? unquoted(name) + rest : isWhole(word) ? unquoted(word.slice(1, -1)) : word;
};
// The column that a word is about, with the operator and the value. Of the names that it begins with, the longest one counts: names may
// have any letters. Of several, the one with the same capitals counts, then an identifier, a name and a heading; `others` are columns that
// are meant as well as this one.
const conditionOf = (word, columns) => {
  const lower = word.toLowerCase();
  const found = columns.flatMap((column) => namesOf(column).flatMap((name) => {
    const condition = lower.startsWith(name.toLowerCase()) && word.slice(name.length).match(CONDITION);
    const isSame = word.startsWith(name);
    return condition ? [{ rank: [name.length, Number(isSame), isSame ? [column.name, column.id].indexOf(name) + 2 || 1 : 0], name, column, operator: condition[1], value: condition[2] }] : [];
  }));
  const compare = ({ rank: one }, { rank: other }) => one.map((part, index) => part - other[index]).find((difference) => difference) ?? 0;
  const best = found.reduce((best, other) => (!best || compare(other, best) > 0 ? other : best), null);
  if (!best) return null;
  const others = found.filter((other) => other.column !== best.column && other.name !== best.name && compare(other, best) === 0);
  return { ...best, others: [...new Set(others.map(({ column }) => column))] };
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
    const { column, operator, value, others } = conditionOf(word, known) ?? {};
    // A value in quotes of its own is not divided.
    const wanted = value === undefined ? [] : [...value.matchAll(VALUES)].map(([all, inner]) => (inner === undefined ? [all, false] : [unquoted(inner), true]));
    if (!column) {
      const name = word.match(/^([^<>=].*?):?(<=|>=|!=|<|>|=)/s)?.[1];
      if (name && raw === word) remarks.push(`${name} is not an axis or metric of these jobs`);
      tests.push((row) => row.label.toLowerCase().includes(part) || row.key.startsWith(part) || row.says.toLowerCase().includes(part));
    } else if (others.length) {
      remarks.push(`${word} may be about ${[column, ...others].map(({ name }) => name).join(" or ")}: capitals tell them apart`);
    } else if (!wanted.length) {
      remarks.push(`a value is missing after ${word}`);
    } else if (operator === "=" || operator === "!=") {
      const fits = column.all ? [] : [[value, true], ...wanted].map(alternative(column, rows));
      const isTag = (name) => (rows.some((row) => column.all(row).includes(name)) ? (own) => own === name : (own) => own.toLowerCase() === name.toLowerCase());
      const tags = column.all ? wanted.map(([name]) => isTag(name)) : [];
      const has = (row) => (column.all ? column.all(row).some((own) => tags.some((is) => is(own))) : fits.some((fit) => fit(column.of(row))));
      tests.push(operator === "=" ? has : (row) => !has(row));
      if (operator === "=" && rows.length && !rows.some(has)) {
        const values = column.values?.length <= MAX_VALUES_NAMED ? `, which is ${column.values.map(valueText).join(", ")}` : "";
        unmet.push(`no job has this ${column.name}${values}`);
      }
    } else if (column.all || numeric(value) === null) {
      remarks.push(column.all ? `${column.name} is compared with = or !=` : `${word} needs a number after ${operator}`);
    } else {
      const compare = COMPARISONS[operator];
      tests.push((row) => {
        const own = column.of(row);
        return own !== null && numeric(own) !== null && compare(signOf(own, value));
      });
    }
  }
  return { fits: (row) => tests.every((test) => test(row)), remarks, unmet };
};
