// Tables whose rows can be sorted by each column.

/**
 * Make a table in `place`. Returns what shows rows in it.
 *
 * A column has a `title`; a `value`, by which rows are sorted; and a `cell`: a text, a node, or
 * [one of these, class]. Without a cell the value is shown as a count. The first column is the
 * row's header, made once.
 */
function sortable(place, id, label, columns, key, mark = () => "") {
  let items = [], by = -1, sign = 1;
  const heads = columns.map((column, i) => {
    const button = html("button", { type: "button" }, column.title);
    button.addEventListener("click", () => { turn(i); redraw(); });
    return html("th", { scope: "col" }, button);
  });
  const body = html("tbody", { id });
  place.replaceChildren(html("div",
    { class: "scroll tall", tabindex: "0", role: "group", "aria-label": `Table: ${label}` },
    html("table", {}, html("caption", { class: "hidden" }, label),
      html("thead", {}, html("tr", {}, ...heads)), body)));

  /** First the direction that is asked for more often, then the other one, then none. */
  function turn(i) {
    const first = items.some((item) => typeof columns[i].value(item) === "number") ? -1 : 1;
    if (by !== i) [by, sign] = [i, first];
    else if (sign === first) sign = -first;
    else by = -1;
    heads.forEach((head, k) => {
      if (k === by) head.setAttribute("aria-sort", sign < 0 ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    });
  }

  function sorted() {
    if (by < 0) return items;
    const value = columns[by].value;
    return [...items].sort((a, b) => {
      const [x, y] = [value(a), value(b)];
      if (x == null || y == null) return (x == null) - (y == null); // those without one are last
      return sign * (typeof x === "number" ? x - y : String(x).localeCompare(String(y)));
    });
  }

  function redraw() {
    keyed(body, sorted(), key, (item) => html("tr", {}, html("th", { scope: "row" },
      (columns[0].cell ?? ((of) => String(columns[0].value(of))))(item))), (row, item) => {
      row.className = mark(item);
      columns.slice(1).forEach((column, i) => {
        const found = column.cell ? column.cell(item) : count(column.value(item));
        const [content, style] = Array.isArray(found) ? found : [found, ""];
        const td = row.children[i + 1] ?? row.appendChild(html("td"));
        td.className = style;
        if (content instanceof Node) td.replaceChildren(content); else setText(td, content);
      });
    });
  }

  return (latest) => { items = latest; redraw(); };
}
