// Curves: their values between points, and means of many with the intervals of groups.
// Places of a mean at most, and its intervals if its curves have more.
const MAX_PLACES = 2048;
const GRID = 512;
// True if the places of a curve go back and forth, as a learning rate with a warmup does: its points are in the order of the steps then.
const folded = new WeakMap();
const isFolded = ({ x }) => {
  if (!folded.has(x)) folded.set(x, !x.every((at, index) => index === 0 || at >= x[index - 1]));
  return folded.get(x);
};
// The value of a curve between its points; null outside of them.
const valueAt = (curve, at) => {
  const { x, y } = curve;
  if (isFolded(curve)) return y[nearestPoint(curve, at)] ?? null;
  if (!x.length || at < x[0] || at > x[x.length - 1]) return null;
  let [low, high] = [0, x.length - 1];
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (x[middle] <= at) low = middle;
    else high = middle;
  }
  return x[high] === x[low] || at === x[low] ? y[low] : y[low] + (y[high] - y[low]) * (at - x[low]) / (x[high] - x[low]);
};
// The index of the first place in `x` that is not below `at`.
const placeIn = (x, at) => {
  let [low, high] = [0, x.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (x[middle] < at) low = middle + 1;
    else high = middle;
  }
  return low;
};
// The index of the point of a curve that is nearest to `at`; null outside of the curve.
const nearestPoint = (curve, at) => {
  const { x } = curve;
  if (isFolded(curve)) {
    const [low, high] = extremes([...x]);
    return at < low || at > high ? null : x.reduce((best, place, index) => (Math.abs(place - at) < Math.abs(x[best] - at) ? index : best), 0);
  }
  if (!x.length || at < x[0] || at > x[x.length - 1]) return null;
  const after = placeIn(x, at);
  return after > 0 && at - x[after - 1] < x[after] - at ? after - 1 : after;
};
const gridOf = (low, high, log, count) => Array.from({ length: count }, (_, index) => {
  const share = index / (count - 1);
  return log && low > 0 ? low * (high / low) ** share : low + (high - low) * share;
});
// The places of a mean between two ends: all places of its curves, or, if these are too many, intervals with their middles.
const meanPlaces = (curves, low, high, log) => {
  const all = new Set();
  let last = [];
  for (const { x } of curves) {
    // Most jobs report at the same steps.
    if (x.length === last.length && x.every((at, index) => at === last[index])) continue;
    last = x;
    for (const at of x) if (at >= low && at <= high) all.add(at);
    if (all.size > MAX_PLACES) break;
  }
  if (all.size <= MAX_PLACES) return { x: [...all].sort((one, other) => one - other), edges: null };
  const edges = gridOf(low, high, log, GRID + 1);
  // The ends of the grid are rounded.
  [edges[0], edges[GRID]] = [low, high];
  return { x: edges.slice(1).map((edge, index) => (edge + edges[index]) / 2), edges };
};
// The values of a curve at places: of an interval the mean of its points, elsewhere what lies between two points.
const valuesAt = (curve, { x, edges }) => {
  let next = edges ? placeIn(curve.x, edges[0]) : 0;
  return x.map((at, index) => {
    if (!edges) {
      while (next < curve.x.length && curve.x[next] < at) next += 1;
      return curve.x[next] === at ? curve.y[next] : valueAt(curve, at);
    }
    const begin = next;
    while (next < curve.x.length && (curve.x[next] < edges[index + 1] || (index === x.length - 1 && curve.x[next] === edges[index + 1]))) next += 1;
    return next > begin ? meanOf([...curve.y.slice(begin, next)]) : valueAt(curve, at);
  });
};
// The mean of jobs' curves where all of them have values, with the half-widths of its intervals over seeds.
const meanCurve = (rows, curves, log, data) => {
  const found = rows.filter(({ key }) => curves.get(key)?.x.length);
  // Where a curve is at a place several times, it has no value there.
  if (!found.length || found.some(({ key }) => isFolded(curves.get(key)))) return null;
  const [low, high] = [Math.max(...found.map(({ key }) => curves.get(key).x[0])), Math.min(...found.map(({ key }) => curves.get(key).x.at(-1)))];
  if (low > high) return null;
  const { units, parts } = partsOf(found, data);
  const places = meanPlaces(found.map(({ key }) => curves.get(key)), low, high, log);
  const values = new Map(found.map((row) => [row, valuesAt(curves.get(row.key), places)]));
  const means = places.x.map((_, index) => parts.map((part) => meanOfPart(part, (row) => values.get(row)[index])));
  // The server has thinned out curves with so many points: each is the mean of its neighbors.
  const isThinned = found.some(({ key }) => curves.get(key).isThinned);
  return { x: places.x, edges: places.edges ?? (isThinned ? [low, ...places.x.slice(1).map((at, index) => (at + places.x[index]) / 2), high] : null), y: means.map(meanOf), half: units ? means.map((values) => halfOf(values, data.quantiles)) : null };
};
const minus = (line, base) => {
  const kept = [...line.x.keys()].filter((index) => valueAt(base, line.x[index]) !== null);
  const pick = (values) => values && kept.map((index) => values[index]);
  return { ...line, edges: kept.length === line.x.length ? line.edges : null, x: pick([...line.x]), y: kept.map((index) => line.y[index] - valueAt(base, line.x[index])), half: null };
};
