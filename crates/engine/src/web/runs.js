// The list of runs and reports, as it is now: filtered, a hundred at a time.
const RUN = { live: ["running", "▸"], stopping: ["retrying", "■"], interrupted: ["lost", "!"], failed: ["failed", "✗"], done: ["done", "✓"], killed: ["lost", "!"] };
const MOST_COMPARED = 6;
const chosen = new Set();
const of = (name) => document.getElementById(name);
const [ready, text, state] = ["compare", "filter", "state"].map(of);
let data = JSON.parse(of("data").textContent);
let first = 0;
const rank = () => {
  ready.disabled = chosen.size < 2 || chosen.size > MOST_COMPARED;
  ready.textContent = chosen.size > 1 ? `Compare ${chosen.size} runs` : "Compare runs";
};
const bar = (parts, words) => {
  const image = draw("svg", { viewBox: "0 0 1000 8", preserveAspectRatio: "none", class: "bar", role: "img", "aria-label": words });
  image.append(...parts.map(([name, from, to]) => draw("rect", { class: name, x: from, y: 0, width: to - from, height: 8 })));
  return image;
};
const line = (run) => {
  const line = make("tr");
  const box = make("input");
  Object.assign(box, { type: "checkbox", id: `choose-${run.name}`, checked: chosen.has(run.name) });
  box.setAttribute("aria-label", `compare ${run.recipe}, ${run.name}`);
  box.addEventListener("change", () => { chosen[box.checked ? "add" : "delete"](run.name); rank(); });
  const choice = make("td");
  choice.append(box);
  const [kind, mark] = RUN[run.state];
  const status = make("td");
  const sign = make("span", mark);
  sign.setAttribute("aria-hidden", "true");
  const word = make("span", undefined, `pill ${kind}`);
  word.append(sign, make("span", ` ${run.state}`, "word"));
  status.append(word);
  const name = make("th");
  name.scope = "row";
  const link = make("a", run.recipe);
  link.href = `/runs/${encodeURIComponent(run.name)}`;
  link.id = `run-${run.name}`;
  name.append(link, make("span", run.name, "why"));
  const jobs = make("td", undefined, "tally");
  jobs.append(bar(run.bar, run.words), make("span", run.words, "why"));
  line.append(choice, status, name, jobs, make("td", run.begun, "extra"), make("td", run.host, "extra"), make("td", run.took, "extra"));
  return line;
};
const show = () => {
  const { runs, more, reports } = data;
  const focused = document.activeElement?.id;
  const words = text.value.toLowerCase().split(/\s+/).filter(Boolean);
  const found = runs.filter((run) => (!state.value || run.state === state.value)
    && words.every((word) => `${run.recipe} ${run.name} ${run.begun} ${run.host}`.toLowerCase().includes(word)));
  first = Math.max(0, Math.min(first, Math.floor((found.length - 1) / PAGE) * PAGE));
  const shown = found.slice(first, first + PAGE);
  of("none").hidden = runs.length > 0;
  of("more").textContent = more ? `and ${plural(more, "earlier run")}` : "";
  of("shown").textContent = `${plural(found.length, "run")}${shown.length < found.length ? `, ${first + 1} to ${first + shown.length} shown` : ""}`;
  ["earlier", "later"].forEach((name) => { of(name).hidden = found.length <= PAGE; });
  of("earlier").disabled = first === 0;
  of("later").disabled = first + PAGE >= found.length;
  of("runs-body").replaceChildren(...shown.map(line));
  of("reports-body").replaceChildren(...reports.map((path) => {
    const item = make("li");
    const link = make("a", path);
    link.href = `/reports/${path.split("/").map(encodeURIComponent).join("/")}/index.html`;
    item.append(link);
    return item;
  }));
  of("reports").hidden = reports.length === 0;
  if (focused) of(focused)?.focus();
  rank();
};
[text, state].forEach((control) => control.addEventListener("input", () => { first = 0; show(); }));
of("earlier").addEventListener("click", () => { first -= PAGE; show(); });
of("later").addEventListener("click", () => { first += PAGE; show(); });
document.querySelector("form").addEventListener("submit", (event) => {
  event.preventDefault();
  // The earliest first.
  location.href = `/compare?runs=${[...chosen].sort().map(encodeURIComponent).join(",")}`;
});
show();
new EventSource("/events").addEventListener("message", (event) => { data = JSON.parse(event.data); show(); });
