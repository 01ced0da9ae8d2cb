// The chooser of columns: shown or not, their order, pinned ones and widths.
const WIDTHS = [60, 900];
const widthOf = (text) => (NUMBER.test(text) ? Math.max(WIDTHS[0], Math.min(WIDTHS[1], Number(text))) : null);
// `view` has the identifiers of the shown columns in their order (`shown`), of pinned ones (`pins`), and widths in pixels by identifier;
// `changed` is called after a choice.
const columnChooser = (box, view, changed) => {
  const body = box.querySelector("#columns-body");
  let columns = [];
  let left = 0;
  const search = make("input");
  Object.assign(search, { type: "search", placeholder: "Find a column", autocomplete: "off", spellcheck: false });
  search.setAttribute("aria-label", "Find a column");
  const list = make("ul");
  const note = make("p", "", "note");
  const reset = plainButton("As at first", () => {
    [view.chosen, view.pins] = [null, []];
    view.widths.clear();
    update();
  });
  const tools = make("p", undefined, "search");
  tools.append(search, reset);
  const scroll = region(make("div", undefined, "all"), "Columns");
  scroll.append(list);
  const update = () => {
    changed();
    draw();
  };
  const move = (id, by) => {
    const ids = [...view.shown()];
    const at = ids.indexOf(id);
    const to = at + by;
    if (at < 0 || to < 0 || to >= ids.length) return;
    [ids[at], ids[to]] = [ids[to], ids[at]];
    view.chosen = ids;
    update();
    list.querySelector(`[data-move="${CSS.escape(`${by}${id}`)}"]`)?.focus();
  };
  const line = (column, place, count) => {
    const item = make("li");
    const label = make("label");
    const box = make("input");
    Object.assign(box, { type: "checkbox", checked: place >= 0 });
    box.addEventListener("change", () => {
      view.chosen = box.checked ? [...view.shown(), column.id] : view.shown().filter((id) => id !== column.id);
      update();
      [...list.querySelectorAll("input[type=checkbox]")].find((other) => other.dataset.id === column.id)?.focus();
    });
    box.dataset.id = column.id;
    // An axis, a metric and the time of jobs may have the same heading.
    const isAlone = columns.every((other) => other === column || other.title !== column.title);
    label.append(box, " ", broken(make("span"), isAlone ? column.title : `${column.title} (${column.id})`));
    item.append(label);
    if (place < 0) return item;
    const pin = plainButton("Pin", () => {
      view.pins = view.pins.includes(column.id) ? view.pins.filter((id) => id !== column.id) : [...view.pins, column.id];
      update();
      list.querySelector(`[data-pin="${CSS.escape(column.id)}"]`)?.focus();
    }, `Pin ${column.title}`);
    pin.setAttribute("aria-pressed", String(view.pins.includes(column.id)));
    pin.dataset.pin = column.id;
    const [up, down] = [[-1, "↑", "earlier"], [1, "↓", "later"]].map(([by, sign, word]) => {
      const button = plainButton(sign, () => move(column.id, by), `Move ${column.title} ${word}`);
      button.dataset.move = `${by}${column.id}`;
      button.disabled = by < 0 ? place === 0 : place === count - 1;
      return button;
    });
    const width = make("input");
    Object.assign(width, { type: "number", min: WIDTHS[0], max: WIDTHS[1], step: 10, placeholder: "width", value: view.widths.get(column.id) ?? "" });
    width.setAttribute("aria-label", `Width of ${column.title} in pixels`);
    width.addEventListener("change", () => {
      const pixels = widthOf(width.value);
      if (pixels === null) view.widths.delete(column.id);
      else view.widths.set(column.id, pixels);
      width.value = pixels ?? "";
      changed();
    });
    item.append(pin, up, down, width);
    return item;
  };
  const draw = () => {
    if (!box.open) return;
    if (!body.firstChild) body.append(tools, scroll, note);
    const word = search.value.toLowerCase();
    const ids = view.shown();
    const places = new Map(ids.map((id, place) => [id, place]));
    const sorted = [...ids.map((id) => columns.find((column) => column.id === id)), ...columns.filter(({ id }) => !places.has(id))];
    const found = sorted.filter((column) => column && namesOf(column).some((name) => name.toLowerCase().includes(word)));
    list.replaceChildren(...found.map((column) => line(column, places.get(column.id) ?? -1, ids.length)));
    note.textContent = left ? `${plural(left, "metric")} more than the page has room for: sweep query and sweep ui have all of them.` : "";
    note.hidden = !left;
  };
  search.addEventListener("input", draw);
  box.addEventListener("toggle", draw);
  return { update: (next, without) => { [columns, left] = [next, without ?? 0]; if (!body.contains(document.activeElement)) draw(); } };
};
