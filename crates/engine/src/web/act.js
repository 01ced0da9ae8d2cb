// The token of the server, which the address that it printed has; without one the pages only show.
const TOKEN = (() => {
  const [, given] = location.hash.match(/^#token=([0-9a-f]{64})$/) ?? [];
  if (given) {
    sessionStorage.setItem("token", given);
    history.replaceState(null, "", location.pathname + location.search);
  }
  return sessionStorage.getItem("token");
})();
// Asks the server to act; answers the command with its output, or an error.
const act = async (path, body) => {
  const answer = await fetch(`/act${path}`, { method: "POST", headers: { Authorization: `Bearer ${TOKEN}` }, ...(body === undefined ? {} : { body: JSON.stringify(body) }) });
  return answer.json().catch(() => ({ error: `the server has refused it (${answer.status})` }));
};
// A button that acts after a question and says which command was carried out.
const actButton = (text, question, path, say) => plainButton(text, async () => {
  if (!confirm(question)) return;
  const { command, error } = await act(path);
  say(command ? `Carried out: ${command}` : `Not carried out: ${error}`);
}, question);
