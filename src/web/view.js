// One run, as it is now.
const RUN = { live: ["running", "▸"], stopping: ["retrying", "■"], interrupted: ["lost", "!"], failed: ["failed", "✗"], done: ["done", "✓"], killed: ["lost", "!"] };
const data = JSON.parse(document.getElementById("data").textContent);
const of = (name) => document.getElementById(name);
const base = `/runs/${encodeURIComponent(data.run)}`;
const load = async (row) => {
  const answer = await fetch(`${base}/jobs/${row.key}`);
  return answer.ok ? answer.json() : {};
};
const list = jobList(of("jobs"), data, load);
const spark = ({ name, points }) => {
  const [wide, high] = [120, 28];
  const values = points.map(([, value]) => value);
  const [first, last] = [points[0], points[points.length - 1]];
  const image = draw("svg", { viewBox: `0 0 ${wide} ${high}`, class: "spark", role: "img", "aria-label": `${name} from ${short(first[1])} to ${short(last[1])}` });
  const [low, most] = [Math.min(...values), Math.max(...values)];
  const x = (step) => 2 + ((step - first[0]) / (last[0] - first[0] || 1)) * (wide - 4);
  const y = (value) => (most > low ? 3 + (1 - (value - low) / (most - low)) * (high - 6) : high / 2);
  image.append(draw("path", { d: points.map(([step, value], index) => `${index ? "L" : "M"}${x(step).toFixed(1)} ${y(value).toFixed(1)}`).join("") }));
  return image;
};
const card = (job) => {
  const card = make("article", undefined, "card");
  card.append(make("h3", job.label));
  if (job.total) {
    const bar = make("progress");
    Object.assign(bar, { max: job.total, value: job.done });
    bar.setAttribute("aria-label", `${job.label}: ${job.done} of ${job.total}`);
    card.append(bar);
  }
  card.append(make("p", job.says, "note"));
  for (const curve of job.curves) {
    const line = make("p", curve.says, "note");
    if (curve.points.length > 1) line.prepend(spark(curve));
    card.append(line);
  }
  return card;
};
let steps = "";
const showRest = (rest) => {
  const [kind, mark] = RUN[rest.state];
  const sign = make("span", `${mark} `);
  sign.setAttribute("aria-hidden", "true");
  of("state").className = `pill ${kind}`;
  of("state").replaceChildren(sign, rest.state);
  of("how").textContent = rest.how;
  of("left").textContent = rest.left ?? "";
  if (of("words").textContent !== rest.words) of("words").textContent = rest.words;
  const bar = draw("svg", { viewBox: "0 0 1000 8", preserveAspectRatio: "none", class: "bar", role: "img", "aria-label": rest.words });
  bar.append(...rest.bar.map(([name, from, to]) => draw("rect", { class: name, x: from, y: 0, width: to - from, height: 8 })));
  of("bar").replaceChildren(bar);
  // Drawn by the server, every text in it escaped.
  if (rest.steps !== steps) {
    steps = rest.steps;
    const focused = document.activeElement?.dataset?.step;
    of("steps-body").innerHTML = steps;
    linkSteps(list);
    if (focused) document.querySelector(`a[data-step="${CSS.escape(focused)}"]`)?.focus();
  }
  of("running").hidden = rest.running.length === 0;
  of("running-body").replaceChildren(...rest.running.map(card));
  if (rest.state !== data.said) {
    if (data.said) of("news").textContent = `the run is ${rest.state}: ${rest.words}`;
    data.said = rest.state;
  }
};
showRest(data.rest);
const source = new EventSource(`${base}/events`);
// What has ended stays as it is: there is nothing to ask again for.
source.addEventListener("end", () => source.close());
source.addEventListener("message", (event) => {
  const { columns, jobs, rest } = JSON.parse(event.data);
  if (columns) data.columns = columns;
  jobs.forEach(([index, line]) => { data.jobs[index] = JSON.parse(line); });
  if (columns || jobs.length) list.update(data);
  if (rest) showRest(rest);
});
