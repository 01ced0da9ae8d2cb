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
const list = jobList(section, data, load, remembered);
linkSteps(list);
// A dot of a figure leads to its job.
document.addEventListener("job", ({ detail }) => list.find(detail));
if (location.hash.length > 8 && data.jobs.some((job) => job[3] === location.hash.slice(1))) {
  list.open(location.hash.slice(1));
  section.scrollIntoView();
}

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
