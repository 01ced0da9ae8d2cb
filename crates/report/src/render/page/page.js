// The report itself: tables that sort, the list of jobs, and the page that loads itself anew while its run goes on.
const data = JSON.parse(document.getElementById("data").textContent);
const remembered = (() => {
  try {
    return JSON.parse(sessionStorage.getItem(location.pathname)) ?? {};
  } catch {
    return {};
  }
})();
// What is not in this page is in one of those beside it, which have the jobs in the same order.
const load = (row) => {
  if (data.details[row.key]) return data.details[row.key];
  const place = data.jobs.findIndex((job) => job[3] === row.key);
  const part = data.parts.findLast((part) => part[0] <= place);
  return part ? `${part[1]}#${row.key}` : {};
};
const section = document.getElementById("jobs");
// The curves in the page: those of jobs whose details are in it, thinned out.
const named = new Map();
// A single value is a metric.
Object.values(data.details).forEach(({ curves }) => curves?.filter(({ values }) => values.length > 1).forEach(({ name, unit }) => { if (!named.get(name)) named.set(name, unit); }));
data.pickable = named.size > 0;
data.compare = ([first, second]) => ({ command: `sweep diff ${first.key} ${second.key}` });
const list = jobList(section, data, load, remembered);
linkSteps(list);
if (data.pickable) {
  curveOverlay(document.getElementById("overlay"), data, list, {
    names: () => [...named],
    read: async (rows, { y, x }, got) => {
      const curve = ({ key }) => {
        const curves = data.details[key]?.curves ?? [];
        const [values, places] = [y, x].map((name) => curves.find((curve) => curve.name === name && (!curve.unit || curve.unit === named.get(name))));
        if (!values || (x && !places)) return [key, { x: [], y: [] }];
        // A curve in a unit that cannot be converted has no place beside the others. Each series was thinned out on its own: places between those that are left are interpolated.
        const pairs = values.at.map((at, index) => [x ? valueAt({ x: places.at, y: places.values }, at) : at, values.values[index]]).filter(([at]) => at !== null);
        return [key, { x: pairs.map(([at]) => at), y: pairs.map(([, value]) => value) }];
      };
      got(new Map(rows.map(curve)));
    },
    running: () => new Map(),
  });
} else if (data.parts.length) {
  const overlay = document.getElementById("overlay");
  overlay.hidden = false;
  overlay.append(make("p", "This page has no room for the curves of its jobs. They are in the pages with all that is known of the jobs; sweep ui draws those of many jobs together.", "note"));
}
if (typeof linkedPlots === "function" && data.columns.length) linkedPlots(document.getElementById("plots"), data, list);
// A job of a claim's card opens in the list, or is in one of the pages beside this one.
document.querySelectorAll("a[data-job]").forEach((link) => link.addEventListener("click", (event) => {
  const { job, place } = link.dataset;
  const row = list.rows().find(({ key }) => key === job);
  const part = data.parts.findLast(([begin]) => begin <= Number(place));
  if (!row && !part) return;
  event.preventDefault();
  if (row) list.find(row.label);
  else location.href = `${part[1]}#${job}`;
}));
// A dot of a figure leads to its job.
document.addEventListener("job", ({ detail }) => list.find(detail));
if (location.hash.length > 8 && data.jobs.some((job) => job[3] === location.hash.slice(1))) {
  list.open(location.hash.slice(1));
}

// On paper nobody can open what is closed.
window.addEventListener("beforeprint", () => document.querySelectorAll("#asked details").forEach((part) => { part.open = true; }));

const sorted = remembered.sorted ?? {};
document.querySelectorAll("table.sortable").forEach((table, index) => sortable(table, sorted[index], (how) => { sorted[index] = how; }));

// A run that goes on has a page that is written anew; whoever types, selects or has asked for a pause is not disturbed.
if (data.live) {
  const pause = document.getElementById("pause");
  const age = () => (Date.now() - Date.parse(data.at)) / 1000;
  const note = document.getElementById("age");
  let paused = remembered.paused ?? false;
  const name = () => { pause.textContent = paused ? "Go on" : "Pause"; };
  const say = () => { note.textContent = age() > 180 ? `nothing new for ${span(age())}` : `as of ${span(Math.max(0, age()))} ago`; };
  pause.hidden = false;
  pause.addEventListener("click", () => { paused = !paused; name(); });
  name();
  say();
  setInterval(say, 1000);
  const busy = () => paused || document.hidden || !getSelection().isCollapsed || /^(INPUT|SELECT)$/.test(document.activeElement?.tagName ?? "");
  // Whoever wrote it may have been killed.
  setInterval(() => { if (!busy() && age() < 600) location.reload(); }, 3000);
  window.addEventListener("pagehide", () => {
    const state = { ...list.kept(), sorted, paused };
    try {
      sessionStorage.setItem(location.pathname, JSON.stringify(state));
    } catch {
      // Without storage the next page begins at its beginning.
    }
  });
} else {
  try {
    // The last page of a run looks as the one before it; the next visit begins anew.
    sessionStorage.removeItem(location.pathname);
  } catch {
    // There is nothing to forget.
  }
}
