// Numbers as texts: in lists, in groups, beside axes and under the pointer.
const plural = (number, noun) => `${number.toLocaleString("en")} ${noun}${number === 1 ? "" : "s"}`;
// A time span, as `format::duration` in the engine writes it.
const span = (seconds) => {
  if (seconds < 0.0995) return `${Math.round(Math.max(0, seconds) * 1000)} ms`;
  if (seconds < 59.95) return `${seconds.toFixed(1)} s`;
  const whole = Math.round(seconds);
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${whole % 60} s`;
  return `${Math.floor(whole / 3600)} h ${Math.floor(whole / 60) % 60} min`;
};
const extremes = (values) => values.reduce(([low, high], value) => [Math.min(low, value), Math.max(high, value)], [Infinity, -Infinity]);
// The number of leading digits that all values have in common.
const MAX_FURTHER = 14;
const sharedDigits = (values) => {
  const [low, high] = extremes(values);
  const spread = high - low;
  return spread > 0 && spread < Infinity ? Math.max(0, Math.min(MAX_FURTHER, Math.floor(Math.log10(Math.max(Math.abs(low), Math.abs(high)) / spread)))) : 0;
};
// Whole numbers up to this size are exact.
const EXACT = 2 ** 53;
const isExact = (value) => Number.isInteger(value) && Math.abs(value) <= EXACT;
// A number to three significant digits or with `places` decimals, as `format::number` in the engine writes it.
const decimals = (value) => {
  const size = Math.abs(value);
  if (size >= 99.95) return 0;
  if (size >= 9.995) return 1;
  if (size >= 0.995 || size === 0) return 2;
  if (size >= 0.0995) return 3;
  if (size >= 0.00995) return 4;
  return size >= 1e-4 ? 6 : 2 - Math.floor(Math.log10(size));
};
const shown = (value, places = decimals(value)) => {
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-4 || size >= 1e9)) return value.toExponential(Math.max(0, Math.min(2, places + Math.floor(Math.log10(size))))).replace("e+", "e");
  const text = value.toFixed(Math.min(places, 100));
  return /[1-9]/.test(text) ? text : text.replace("-", "");
};
// A number of a list whose values have `shared` leading digits in common, as `format::listed` in the engine writes it.
const listed = (value, shared) => {
  if (!shared) return shown(value);
  if (isExact(value)) return String(value);
  const [size, digits] = [Math.abs(value), Math.min(16, 2 + shared)];
  return size < 1e-4 || size >= 1e9 ? value.toExponential(digits).replace("e+", "e") : value.toFixed(Math.max(0, digits - Math.floor(Math.log10(size))));
};
// Decimals that show two digits of an uncertainty.
const placesOf = (uncertainty) => Math.max(0, 1 - Math.floor(Math.log10(uncertainty)));
// Half of an interval, rounded up.
const raised = (half, places) => {
  // A power of ten above 1e300 is no number.
  const [big, factor] = [places > 300 ? 1e300 : 1, 10 ** (places > 300 ? places - 300 : places)];
  // Less than a rounding error above a decimal is that decimal.
  return Math.ceil(half * big * factor - 1e-9) / factor / big;
};
// A mean with half of its interval, which has two digits and is rounded up, as `with_half` in the engine writes it.
const MAX_PLAIN = 1e16;
const withHalf = (mean, half) => {
  const places = placesOf(half);
  // An exponent would have fewer digits than the interval justifies.
  const isPlain = Math.abs(mean) >= 1e9 && Math.abs(mean) < MAX_PLAIN && half < Math.abs(mean) / 1000;
  return `${isPlain ? mean.toFixed(Math.min(places, 100)) : shown(mean, places)} ± ${shown(raised(half, places), places)}`;
};
// A geometric mean with the ends of its interval, as `Cell::mean` in the engine writes it.
const MAX_RATIO = 1e4;
const withEnds = (mean, low, high) => {
  if (!(high / low <= MAX_RATIO)) return `${shown(mean)} [?]`;
  const places = placesOf((high - low) / 2);
  return `${shown(mean, places)} [${shown(low, places)}, ${shown(high, places)}]`;
};
// A number to so many significant digits, without zeros at its end.
const brief = (value, digits = 4) => {
  const rounded = Number(value.toPrecision(digits));
  return (Math.abs(rounded) >= 1e9 ? rounded.toExponential() : String(rounded)).replace("e+", "e");
};
// A value between two others, with as many digits as tell apart what is between them; whole numbers are exact.
const reading = (value, ends) => (isExact(value) ? String(value) : brief(value, Math.min(17, 4 + sharedDigits(ends))));
// The number with the fewest digits that is nearly a value.
const nearly = (value, tolerance) => {
  for (let digits = 1; digits < 17; digits += 1) {
    const rounded = Number(value.toPrecision(digits));
    if (Math.abs(rounded - value) <= tolerance) return rounded;
  }
  return value;
};
// Texts of numbers beside each other, with as many digits as tell them apart; none for what is no number.
const apart = (values, write) => {
  const different = new Set(values).size;
  for (let digits = 4; ; digits += 1) {
    const texts = values.map((value) => (value === null ? "" : write(value, digits)));
    if (digits === 17 || new Set(texts).size === different) return texts;
  }
};
const marksOf = (values) => apart(values, (value, digits) => (digits > 4 && isExact(value) ? String(value) : brief(value, digits)));
// The marks of the axes of charts, in short: `10k`.
const compact = new Map();
const tick = (value, digits) => {
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-3 || size >= 1e15)) return Number(value.toPrecision(digits)).toExponential().replace("e+", "e").replaceAll("-", "−");
  if (!compact.has(digits)) compact.set(digits, new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: digits }));
  return compact.get(digits).format(value).replace("-", "−");
};
const ticks = (values) => apart(values, tick);
