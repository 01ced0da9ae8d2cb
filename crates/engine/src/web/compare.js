// Tables that sort, and the curves of a job of all runs, one over the other.
document.querySelectorAll("table.sortable").forEach((table) => sortable(table));
const data = JSON.parse(document.getElementById("data").textContent);
const job = document.getElementById("job");
const details = new Map();
const fetched = (run, key) => {
  const path = `/runs/${encodeURIComponent(run)}/jobs/${key}`;
  // Runs may have the same job.
  if (!details.has(key)) details.set(key, fetch(path).then((answer) => (answer.ok ? answer.json() : {})));
  return details.get(key);
};
const show = async () => {
  const [label, keys] = data.jobs[job.selectedIndex];
  const found = await Promise.all(keys.map((key, index) => (key ? fetched(data.runs[index][0], key) : {})));
  if (data.jobs[job.selectedIndex][0] !== label) return;
  const series = new Map();
  found.forEach((detail, index) => (detail.curves ?? []).filter((curve) => curve.values.length).forEach((curve) => {
    const name = unitOf(curve);
    series.set(name, [...(series.get(name) ?? []), { ...curve, name: data.runs[index][1] }]);
  }));
  const missing = data.runs.filter((run, index) => !keys[index]).map(([, letter]) => letter);
  document.getElementById("curves-note").textContent = missing.length ? `no curves in ${missing.join(", ")}` : "";
  document.getElementById("curves-body").replaceChildren(...[...series].map(([name, lines]) => jobCurve(name, lines).figure));
};
if (job) {
  job.replaceChildren(...data.jobs.map(([label]) => new Option(label, label)));
  job.addEventListener("input", show);
  show();
}
