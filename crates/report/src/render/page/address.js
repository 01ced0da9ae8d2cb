// The view of a page in its address: a link shows others the same. A part that is as at first is not in it.
const readAddress = () => {
  const asked = new URLSearchParams(location.search);
  const list = (name) => (asked.get(name) ?? "").split(",").filter(Boolean).map((part) => {
    try {
      return decodeURIComponent(part);
    } catch {
      return part;
    }
  });
  return { text: (name) => asked.get(name) ?? "", list, has: (name) => asked.has(name) };
};
// Browsers limit the number of changes in a time: the last of a burst counts.
const pendingAddress = { parts: {}, timer: 0 };
const writeAddress = (parts) => {
  Object.assign(pendingAddress.parts, parts);
  clearTimeout(pendingAddress.timer);
  pendingAddress.timer = setTimeout(() => {
    const asked = new URLSearchParams(location.search);
    Object.entries(pendingAddress.parts).forEach(([name, value]) => {
      const text = Array.isArray(value) ? value.map(encodeURIComponent).join(",") : value ?? "";
      if (text === "") asked.delete(name);
      else asked.set(name, text);
    });
    pendingAddress.parts = {};
    const search = asked.toString();
    // A job by whose key the page was opened is in the address as the open one.
    const hash = document.getElementById(location.hash.slice(1)) ? location.hash : "";
    try {
      history.replaceState(history.state, "", `${location.pathname}${search ? `?${search}` : ""}${hash}`);
    } catch {
      // A browser that lets pages of files have no address of their own.
    }
  }, 150);
};
