// The list of runs and reports, as it is now.
const RUN = { live: ["running", "▸"], stopping: ["retrying", "■"], interrupted: ["lost", "!"], failed: ["failed", "✗"], done: ["done", "✓"], killed: ["lost", "!"] };
const chosen = new Set();
const ready = document.getElementById("compare");
const rank = () => { ready.disabled = chosen.size !== 2; };
const bar = (parts, words) => {
  const image = draw("svg", { viewBox: "0 0 1000 8", preserveAspectRatio: "none", class: "bar", role: "img", "aria-label": words });
  image.append(...parts.map(([name, from, to]) => draw("rect", { class: name, x: from, y: 0, width: to - from, height: 8 })));
  return image;
};
const showRuns = ({ runs, more, reports }) => {
  const focused = document.activeElement?.id;
  document.getElementById("none").hidden = runs.length > 0;
  document.getElementById("more").textContent = more ? `and ${plural(more, "earlier run")}` : "";
  document.getElementById("runs-body").replaceChildren(...runs.map((run) => {
    const line = make("tr");
    const box = make("input");
    Object.assign(box, { type: "checkbox", id: `choose-${run.name}`, checked: chosen.has(run.name) });
    box.setAttribute("aria-label", `compare ${run.recipe}, ${run.name}`);
    box.addEventListener("change", () => { chosen[box.checked ? "add" : "delete"](run.name); rank(); });
    const choice = make("td");
    choice.append(box);
    const [kind, mark] = RUN[run.state];
    const state = make("td");
    const sign = make("span", mark);
    sign.setAttribute("aria-hidden", "true");
    const status = make("span", undefined, `pill ${kind}`);
    status.append(sign, make("span", ` ${run.state}`, "word"));
    state.append(status);
    const name = make("th");
    name.scope = "row";
    const link = make("a", run.recipe);
    link.href = `/runs/${encodeURIComponent(run.name)}`;
    link.id = `run-${run.name}`;
    name.append(link, make("span", run.name, "why"));
    const jobs = make("td", undefined, "tally");
    jobs.append(bar(run.bar, run.words), make("span", run.words, "why"));
    line.append(choice, state, name, jobs, make("td", run.begun, "extra"), make("td", run.took, "extra"));
    return line;
  }));
  document.getElementById("reports-body").replaceChildren(...reports.map((path) => {
    const item = make("li");
    const link = make("a", path);
    link.href = `/reports/${path.split("/").map(encodeURIComponent).join("/")}/index.html`;
    item.append(link);
    return item;
  }));
  document.getElementById("reports").hidden = reports.length === 0;
  if (focused) document.getElementById(focused)?.focus();
  rank();
};
document.querySelector("form").addEventListener("submit", (event) => {
  event.preventDefault();
  // The earlier one first.
  const [a, b] = [...chosen].sort();
  location.href = `/compare?a=${encodeURIComponent(a)}&b=${encodeURIComponent(b)}`;
});
showRuns(JSON.parse(document.getElementById("data").textContent));
new EventSource("/events").addEventListener("message", (event) => showRuns(JSON.parse(event.data)));
