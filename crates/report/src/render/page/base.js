"use strict";
// Elements, texts and numbers, for all scripts of the pages. Texts are only ever put in as text.
const MARKS = { done: "✓", cached: "✓", running: "▸", retrying: "↻", waiting: "·", open: "·", failed: "✗", stopped: "■", skipped: "–", lost: "!", "left out": "–", reserve: "–", "ruled out": "–" };
const SVG = "http://www.w3.org/2000/svg";
const make = (tag, text, name) => {
  const element = document.createElement(tag);
  if (text !== undefined) element.textContent = text;
  if (name) element.className = name;
  return element;
};
const draw = (tag, attributes, text) => {
  const element = document.createElementNS(SVG, tag);
  Object.entries(attributes).forEach(([name, value]) => element.setAttribute(name, value));
  if (text !== undefined) element.textContent = text;
  return element;
};
const plural = (number, noun) => `${number.toLocaleString("en")} ${noun}${number === 1 ? "" : "s"}`;
// A time span, as `format::duration` in the engine writes it.
const span = (seconds) => {
  if (seconds < 0.0995) return `${Math.round(Math.max(0, seconds) * 1000)} ms`;
  if (seconds < 59.95) return `${seconds.toFixed(1)} s`;
  const whole = Math.round(seconds);
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${whole % 60} s`;
  return `${Math.floor(whole / 3600)} h ${Math.floor(whole / 60) % 60} min`;
};
const short = (number) => String(Number(number.toPrecision(4)));
const pill = (state) => {
  const element = make("span", undefined, `pill ${state.replace(" ", "-")}`);
  const mark = make("span", MARKS[state] ?? "·");
  mark.setAttribute("aria-hidden", "true");
  element.append(mark, make("span", ` ${state}`, "word"));
  return element;
};

const compact = new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 4 });
const tick = (value) => (value !== 0 && Math.abs(value) < 1e-3 ? value.toExponential(1).replace("e-", "e−") : compact.format(value).replace("-", "−"));
const unitOf = ({ name, unit }) => (unit ? `${name} (${unit})` : name);
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
// A mean with half of its interval, which has two digits and is rounded up, as `with_half` in the engine writes it.
const withHalf = (mean, half) => {
  const places = Math.min(300, Math.max(0, 1 - Math.floor(Math.log10(half))));
  const factor = 10 ** places;
  // Less than a rounding error above a decimal is that decimal.
  return `${shown(mean, places)} ± ${shown(Math.ceil(half * factor - 1e-9) / factor, places)}`;
};
// A value of an axis as a text that can be seen.
const valueText = (value) => (value === "" ? '""' : value);
const option = (value, text) => new Option(text ?? value, value);
// Fills a select element and keeps its choice, if it is still there.
const fill = (select, pairs, wanted = select.value) => {
  select.replaceChildren(...pairs.map(([value, text]) => option(value, text)));
  select.value = pairs.some(([value]) => value === wanted) ? wanted : pairs[0]?.[0] ?? "";
};
const plainButton = (text, act, label) => {
  const button = make("button", text, "plain");
  button.type = "button";
  if (label) button.setAttribute("aria-label", label);
  button.addEventListener("click", act);
  return button;
};
