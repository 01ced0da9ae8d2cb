// A heading sorts its table; numbers by what they are, not by how they are written.
const sortable = (table, before, tell) => {
  const heads = [...table.tHead.rows[0].cells];
  const sort = (column, descending) => {
    heads.forEach((other) => other.removeAttribute("aria-sort"));
    heads[column].setAttribute("aria-sort", descending ? "descending" : "ascending");
    const value = (row) => {
      const cell = row.cells[column];
      return cell.dataset.value === undefined ? cell.textContent : Number(cell.dataset.value);
    };
    const compare = (a, b) => {
      const [left, right] = [value(a), value(b)];
      if (typeof left === "number" && typeof right === "number") return left - right;
      // A missing value is last in both directions.
      if (typeof left !== typeof right) return (typeof left === "number") === descending ? 1 : -1;
      return String(left).localeCompare(String(right), undefined, { numeric: true });
    };
    table.tBodies[0].append(...[...table.tBodies[0].rows].sort((a, b) => (descending ? compare(b, a) : compare(a, b))));
    tell?.([column, descending]);
  };
  heads.forEach((head, column) => head.querySelector("button")?.addEventListener("click", () => sort(column, head.getAttribute("aria-sort") === "ascending")));
  if (before && heads[before[0]]) sort(...before);
};
