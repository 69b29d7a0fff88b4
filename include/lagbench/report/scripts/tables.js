/* The table behind a chart: closed at first, made when it is opened, a page of rows at a time. */
(function (lagbench) {
  "use strict";

  const PAGE = 100;

  const shown = (value) =>
    value === null || value === undefined
      ? "–"
      : typeof value === "number"
        ? value.toLocaleString("en-US", { maximumFractionDigits: 3 })
        : value;

  /** Return a <details> with the rows that `rows()` gives when it is opened or turned over. */
  function pagedTable(title, rows) {
    const { make, button } = lagbench.frame;
    const details = make("details", "behind");
    const body = make("div", "behind-table");
    body.tabIndex = 0; // it scrolls, so that the keyboard must reach it
    body.setAttribute("role", "region");
    body.setAttribute("aria-label", title);
    const where = make("span", "muted");
    let first = 0;
    const turn = (pages) => {
      first += pages * PAGE;
      fill();
    };
    const turner = make("div", "turner");
    turner.append(
      button("Earlier", title + ", earlier rows", () => turn(-1)),
      button("Later", title + ", later rows", () => turn(1)),
      where,
    );
    details.append(make("summary", "", title), turner, body);

    function fill() {
      const found = rows();
      first = Math.max(0, Math.min(first, Math.floor(Math.max(found.length - 1, 0) / PAGE) * PAGE));
      const last = Math.min(first + PAGE, found.length);
      where.textContent = found.length ? `rows ${first + 1} to ${last} of ${found.length}` : "no rows";
      turner.hidden = found.length <= PAGE;
      const table = make("table", "");
      const head = make("tr", "");
      found.header.forEach((name) => {
        const cell = make("th", "n", name);
        cell.scope = "col";
        head.append(cell);
      });
      table.append(head);
      for (let index = first; index < last; index++) {
        const line = make("tr", "");
        found.row(index).forEach((value) => {
          line.append(make("td", typeof value === "string" ? "" : "n", shown(value)));
        });
        table.append(line);
      }
      body.replaceChildren(table);
    }

    details.addEventListener("toggle", () => details.open && fill());
    return details;
  }

  lagbench.pagedTable = pagedTable;
})((window.lagbench = window.lagbench || {}));
