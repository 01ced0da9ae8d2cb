// The token of the server, which the address that it printed has; without one the pages only show.
const TOKEN = (() => {
  const [, given] = location.hash.match(/^#token=([0-9a-f]{64})$/) ?? [];
  if (given) {
    sessionStorage.setItem("token", given);
    history.replaceState(null, "", location.pathname + location.search);
  }
  return sessionStorage.getItem("token");
})();
// The same address with a token is no new page for the browser.
window.addEventListener("hashchange", () => { if (/^#token=[0-9a-f]{64}$/.test(location.hash)) location.reload(); });
// Asks the server to act; answers the command with its output, or an error.
const act = async (path, body) => {
  const answer = await fetch(`/act${path}`, { method: "POST", headers: { Authorization: `Bearer ${TOKEN}` }, ...(body === undefined ? {} : { body: JSON.stringify(body) }) });
  return answer.json().catch(() => ({ error: `the server has refused it (${answer.status})` }));
};
// A button that acts after a question and says, beside itself and in the line for news, which command was carried out. `starts` is true if
// that begins a run.
const actButton = (text, question, path, say, starts = false) => {
  const told = make("span", "", "note");
  const button = plainButton(text, async () => {
    if (!confirm(question)) return;
    button.disabled = true;
    const { command, error } = await act(path);
    const words = command ? `Carried out: ${command}` : `Not carried out: ${error}`;
    say(words);
    told.textContent = ` ${words} `;
    if (command && starts) told.append(Object.assign(make("a", "All runs"), { href: "/" }));
    button.disabled = Boolean(command);
    button.after(told);
  }, question);
  return button;
};
