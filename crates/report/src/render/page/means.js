// Groups of jobs and their means. Lists, heat maps, mean curves and the importance of axes have the same.
// Groups of jobs in their first order: by configuration, which is all axes but the seeds, or by an axis; those of two steps are apart.
const CONFIGURATION = "configuration";
const withoutSeeds = (row, seeds) => [...row.axes].filter(([name]) => !seeds.includes(name)).map(([name, value]) => `${name}=${value}`).join(",");
const groupsOf = (rows, by, seeds) => {
  const groups = new Map();
  rows.forEach((row) => {
    const axes = new Map([...row.axes].filter(([name]) => (by === CONFIGURATION ? !seeds.includes(name) : name === by)));
    const point = [...axes].map(([name, value]) => `${name}=${value}`).join(",");
    const label = point ? `${row.step}/${point}` : row.step;
    // Values with commas may look like other axes.
    const key = JSON.stringify([row.step, ...axes]);
    if (!groups.has(key)) groups.set(key, { label, step: row.step, axes, rows: [] });
    groups.get(key).rows.push(row);
  });
  return [...groups.values()];
};
// The axes in which jobs differ, of those with these names.
const variedIn = (rows, names) => names.filter((name) => new Set(rows.map((row) => row.axes.get(name))).size > 1);
// The independent units of jobs: the jobs of each seed, those of each configuration in a list. Repetitions are averaged within their seed, as
// in tables, and are units themselves where seeds do not vary. If jobs differ in more, the configurations are averaged within each seed, which
// needs the same ones in all: otherwise, and without seeds, there is no unit.
const unitsOf = (rows, { seeds, repeats = [] }) => {
  const drawn = seeds.filter((name) => !repeats.includes(name));
  const own = variedIn(rows, drawn).length ? drawn : seeds;
  const [units, jobs] = [new Map(), new Set()];
  for (const row of rows) {
    const values = own.filter((name) => row.axes.has(name)).map((name) => row.axes.get(name));
    if (!values.length) return null;
    const [seed, configuration] = [JSON.stringify(values), withoutSeeds(row, seeds)];
    const job = JSON.stringify([seed, configuration, repeats.map((name) => row.axes.get(name) ?? null)]);
    if (jobs.has(job)) return null;
    jobs.add(job);
    if (!units.has(seed)) units.set(seed, new Map());
    const unit = units.get(seed);
    if (!unit.has(configuration)) unit.set(configuration, []);
    unit.get(configuration).push(row);
  }
  const [first, ...others] = [...units.values()];
  const isEven = first !== undefined && others.every((unit) => unit.size === first.size && [...unit.keys()].every((key) => first.has(key)));
  return isEven ? [...units.values()].map((unit) => [...unit.values()]) : null;
};
// The parts whose means have the same weight in a mean: the seeds, or, where these differ in their configurations, the configurations.
// A configuration that lacks a seed then counts as much as the others.
const partsOf = (rows, data) => {
  const units = unitsOf(rows, data);
  return { units, parts: units ?? groupsOf(rows, CONFIGURATION, data.seeds).map((group) => [group.rows]) };
};
const meanOfPart = (part, of) => meanOf(part.map((rows) => meanOf(rows.map(of))));
const meanOf = (values) => {
  const sum = values.reduce((sum, value) => sum + value, 0);
  return Number.isFinite(sum) ? sum / values.length : values.reduce((mean, value) => mean + value / values.length, 0);
};
// Half the width of the 95 % confidence interval of a mean, by Student's t. Equal values say nothing about their spread.
const halfOf = (values, quantiles) => {
  const [count, mean] = [values.length, meanOf(values)];
  if (count < 2) return null;
  // The squares of very small and very large distances are no numbers.
  const [, size] = extremes(values.map((value) => Math.abs(value - mean)));
  const deviation = size * Math.sqrt(values.reduce((sum, value) => sum + ((value - mean) / size) ** 2, 0) / (count - 1));
  if (!(deviation > 1e-12 * Math.abs(mean)) || deviation === Infinity) return null;
  // The quantile of the largest number of degrees of freedom that is known is above those of more.
  return quantiles[Math.min(count - 1, quantiles.length) - 1] * (deviation / Math.sqrt(count));
};
// The values of a column whose means are shown: of a job without a result the time is none.
const resultOf = (column) => column.result ?? column.of;
// The values over which a column's mean is taken: times and rates have geometric means, as in tables.
const scaledOf = (column) => (column.log ? (row) => Math.log(resultOf(column)(row)) : resultOf(column));
// The axes that are averaged within each seed.
const averagedIn = (rows, data) => (unitsOf(rows, data)?.[0].length > 1 ? variedIn(rows, [...new Set(rows.flatMap(({ axes }) => [...axes.keys()]))].filter((name) => !data.seeds.includes(name))) : []);
// The mean of a column over the jobs that have a value, with its interval over seeds, and what is to be known about it.
const summary = (rows, column, data) => {
  const of = resultOf(column);
  const found = rows.filter((row) => of(row) !== null);
  if (!found.length) return null;
  const { units, parts } = partsOf(found, data);
  const values = parts.map((part) => meanOfPart(part, scaledOf(column)));
  const [back, [low, high]] = [column.log ? Math.exp : (value) => value, extremes(found.map(of))];
  const [center, half] = [meanOf(values), units && halfOf(values, data.quantiles)];
  const seeds = variedIn(found, data.seeds.filter((name) => !data.repeats?.includes(name)));
  const steps = [...new Set(found.map(({ step }) => step))];
  const interval = () => {
    if (!units) return `, without an interval: ${data.seeds.length ? "not every seed has the same configurations, which count alike" : "there is no axis of seeds"}`;
    if (half !== null) return " with its 95 % confidence interval";
    if (values.length < 2) return "";
    return `, without an interval: ${Number.isFinite(high - low) ? "all values are equal, so their spread is unknown" : "the spread of the values is too large for a number"}`;
  };
  const averaged = averagedIn(found, data);
  const about = [
    `${column.log ? "geometric mean" : "mean"} of ${units ? plural(values.length, "seed") : plural(found.length, "job")}${interval()}`,
    ...(seeds.length > 1 && half !== null ? [`combinations of ${seeds.join(", ")} count as independent`] : []),
    ...(averaged.length ? [`${averaged.join(", ")}: averaged within each seed, so the interval has no part of their spread`] : []),
    ...(steps.length > 1 ? [`jobs of the steps ${steps.join(", ")}`] : []),
    ...(found.length < rows.length ? [`${plural(rows.length - found.length, "job")} without a value`] : []),
  ].join("; ");
  // The exponential of a logarithm is rounded.
  const mean = low === high ? low : back(center);
  return { mean, half, ends: half === null ? null : [back(center - half), back(center + half)], found: found.length, all: rows.length, averaged, about };
};
// The text of such a mean.
const meanText = (column, { mean, half, ends, found, all }) => {
  const text = column.kind === "time" || half === null ? column.text(mean) : column.log ? withEnds(mean, ...ends) : withHalf(mean, half);
  return found < all ? `${text} (${found} of ${all})` : text;
};
// Rows by what `of` says of them.
const groupBy = (rows, of) => {
  const groups = new Map();
  rows.forEach((row) => {
    const name = of(row);
    if (!groups.has(name)) groups.set(name, []);
    groups.get(name).push(row);
  });
  return groups;
};
