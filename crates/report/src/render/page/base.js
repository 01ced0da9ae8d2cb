"use strict";
// Elements and texts, for all scripts of the pages. Texts are only ever put in as text.
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
// A sentence in which code is between backticks, as `prose::markup` in the engine has it.
const piecesOf = (text) => (text.split("`").length % 2 ? text.split("`") : [text]);
const prose = (element, text) => {
  element.append(...piecesOf(text).map((piece, index) => (index % 2 ? make("code", piece) : piece)));
  return element;
};
const spoken = (text) => piecesOf(text).join("");
const pill = (state) => {
  const element = make("span", undefined, `pill ${state.replace(" ", "-")}`);
  const mark = make("span", MARKS[state] ?? "·");
  mark.setAttribute("aria-hidden", "true");
  element.append(mark, make("span", ` ${state}`, "word"));
  return element;
};

const unitOf = ({ name, unit }) => (unit ? `${name} (${unit})` : name);
// A value of an axis as a text that can be seen.
const valueText = (value) => (value !== null && value.trim() === "" ? `"${value}"` : value);
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
