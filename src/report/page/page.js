"use strict";
// The list of jobs, a hundred at a time.
const jobs = JSON.parse(document.getElementById("data").textContent);
const filter = document.getElementById("filter");
const list = document.getElementById("list");
const PAGE = 100;
let first = 0;
const make = (tag, text, name) => {
  const element = document.createElement(tag);
  if (text !== undefined) element.textContent = text;
  if (name) element.className = name;
  return element;
};
const show = () => {
  const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
  const found = jobs.filter((job) => words.every((word) => job.label.toLowerCase().includes(word) || job.key.startsWith(word)));
  first = Math.max(0, Math.min(first, Math.floor((found.length - 1) / PAGE) * PAGE));
  const shown = found.slice(first, first + PAGE);
  const range = shown.length < found.length ? `, ${first + 1} to ${first + shown.length} of them shown` : "";
  document.getElementById("shown").textContent = `${found.length} ${found.length === 1 ? "job" : "jobs"}${range}`;
  list.replaceChildren(...shown.map((job) => {
    const details = make("details");
    const summary = make("summary", `${job.done ? "✓" : "·"} ${job.label} `);
    summary.append(make("span", job.done ? job.time ?? "" : "not done", "time"));
    const facts = make("dl");
    const fact = (name, value) => { if (value) facts.append(make("dt", name), make("dd", value)); };
    fact("key", job.key);
    fact("device", job.device);
    (job.params ?? []).forEach(([name, value]) => fact(name, value));
    (job.metrics ?? []).forEach(([name, value]) => fact(name, value));
    details.append(summary, facts);
    return details;
  }));
  document.getElementById("earlier").disabled = first === 0;
  document.getElementById("later").disabled = first + PAGE >= found.length;
};
filter.addEventListener("input", () => { first = 0; show(); });
filter.form.addEventListener("submit", (event) => event.preventDefault());
document.getElementById("earlier").addEventListener("click", () => { first -= PAGE; show(); });
document.getElementById("later").addEventListener("click", () => { first += PAGE; show(); });
// A step of the graph shows its jobs.
document.querySelectorAll("a[data-step]").forEach((link) => link.addEventListener("click", () => {
  filter.value = link.dataset.step;
  first = 0;
  show();
}));
// A heading sorts its table; numbers by what they are, not by how they are written.
document.querySelectorAll("table.sortable").forEach((table) => {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => head.querySelector("button").addEventListener("click", () => {
    const descending = head.getAttribute("aria-sort") === "ascending";
    heads.forEach((other) => other.removeAttribute("aria-sort"));
    head.setAttribute("aria-sort", descending ? "descending" : "ascending");
    const value = (row) => {
      const cell = row.cells[column];
      return cell.dataset.value === undefined ? cell.textContent : Number(cell.dataset.value);
    };
    const compare = (a, b) => {
      const [left, right] = [value(a), value(b)];
      if (typeof left === "number" && typeof right === "number") return left - right;
      return String(left).localeCompare(String(right), undefined, { numeric: true });
    };
    const rows = [...table.tBodies[0].rows].sort((a, b) => (descending ? compare(b, a) : compare(a, b)));
    table.tBodies[0].append(...rows);
  }));
});
show();
