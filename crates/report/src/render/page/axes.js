// The axes of charts and plots: their ranges and their marks.
const MAX_POWERS = 10;
// About four round marks between two numbers.
const evenMarks = (low, high) => {
  const size = 10 ** Math.floor(Math.log10((high - low) / 2));
  const step = [5, 2, 1].map((factor) => factor * size).find((step) => (high - low) / step >= 3) ?? size;
  const first = Math.ceil(low / step);
  return Array.from({ length: Math.floor(high / step) - first + 1 }, (_, index) => (first + index) * step);
};
// The marks of a logarithmic axis: powers of ten, with others between them where these are few, and of a short range those of a linear one.
const logMarks = (low, high) => {
  const [first, last] = [Math.floor(Math.log10(low)), Math.ceil(Math.log10(high))];
  // Of many powers of ten every second, fifth, tenth and so on.
  const every = [1, 2, 5, 10, 20, 50, 100].find((every) => (last - first) / every <= MAX_POWERS);
  if (every > 1) return Array.from({ length: Math.floor(last / every) - Math.ceil(first / every) + 1 }, (_, index) => Number(`1e${(Math.ceil(first / every) + index) * every}`)).filter((mark) => mark >= low && mark <= high);
  for (const factors of [[1], [1, 2, 5], [1, 2, 3, 4, 5, 6, 7, 8, 9]]) {
    const marks = Array.from({ length: last - first + 1 }, (_, index) => factors.map((factor) => Number(`${factor}e${first + index}`))).flat().filter((mark) => mark >= low && mark <= high);
    if (marks.length >= 3) return marks;
  }
  return evenMarks(low, high);
};
// The steps that marks in a range of this width may have.
const stepsIn = (width, isWhole) => {
  const size = Math.floor(Math.log10(width));
  const factors = isWhole ? [1, 2, 5] : [1, 2, 2.5, 5];
  const steps = [-3, -2, -1, 0, 1].flatMap((shift) => factors.map((factor) => Number(`${factor}e${size + shift}`)));
  return isWhole ? [...new Set([...steps.filter((step) => step >= 1), ...(size < 0 ? [1] : [])])] : steps;
};
const multiplesIn = (low, high, step) => {
  const [first, last] = [Math.ceil(low / step - 1e-9), Math.floor(high / step + 1e-9)];
  const marks = Array.from({ length: Math.max(0, Math.min(100, last - first + 1)) }, (_, index) => Number(((first + index) * step).toPrecision(15)));
  return [...new Set(marks)];
};
// The range of values, with room at both ends.
const padded = (low, high, log) => {
  if (!(low <= high)) return log ? [1, 10] : [0, 1];
  if (low === high) return log ? [low / 2, high * 2] : [low - (Math.abs(low) || 1) * 0.05, high + (Math.abs(high) || 1) * 0.05];
  return log ? [low / (high / low) ** 0.04, high * (high / low) ** 0.04] : [low - (high - low) * 0.04, high + (high - low) * 0.04];
};
// The width of a text, in pixels.
const ruler = document.createElement("canvas").getContext("2d");
const widthOfText = (text) => {
  ruler.font = FONT;
  return ruler.measureText(text).width;
};
// uPlot's options of an axis with its own steps and marks, because those of uPlot have few digits and end at 1e32.
const axisOf = (log, isWhole) => {
  let step = 1;
  return {
    font: FONT, stroke: color("--soft"), grid: { stroke: color("--line"), width: 1 }, ticks: { stroke: color("--line"), width: 1 },
    // uPlot hides the axis if a step of more than 17 digits is the answer.
    incrs: (self, index, low, high, size, space) => {
      const steps = stepsIn(high - low, isWhole);
      step = steps.find((step) => size * step >= space * (high - low)) ?? steps.at(-1);
      return [Math.max(5, 10 * (high - low))];
    },
    space: (self, index, low, high) => (index === 0 ? 50 + 7 * sharedDigits([low, high]) : 30),
    splits: (self, index, low, high) => (log ? logMarks(low, high) : multiplesIn(low, high, step)),
    filter: (self, splits) => splits,
    values: (self, splits) => ticks(splits),
  };
};
// A range that is `by` times as wide, shifted by a share of its width.
const rescaled = ([low, high], log, by, shift) => {
  const of = log && low > 0 ? [Math.log, Math.exp] : [(value) => value, (value) => value];
  const [from, to] = [of[0](low), of[0](high)];
  const [middle, half] = [(from + to) / 2 + shift * (to - from), (to - from) / 2 * by];
  return [of[1](middle - half), of[1](middle + half)];
};
// Keys that zoom: `zoom` gets the factor and the shift, and null for the whole range.
const ZOOM_KEYS = { "+": [0.5, 0], "=": [0.5, 0], "-": [2, 0], ArrowLeft: [1, -0.2], ArrowRight: [1, 0.2], 0: [null, 0] };
const onZoomKeys = (place, zoom) => place.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.altKey || event.metaKey || !ZOOM_KEYS[event.key]) return;
  zoom(...ZOOM_KEYS[event.key]);
  event.preventDefault();
});
const titled = (label, labelSize) => ({ label, labelSize, labelFont: FONT });
// The width of a vertical axis.
const roomOf = (least) => (self, values) => Math.max(least, ...(values ?? []).map((text) => 20 + widthOfText(text)));
