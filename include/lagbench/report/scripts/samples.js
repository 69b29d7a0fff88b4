/* Samples of a run: decode them, let them grow, show them as a table, save them; and the frame of a panel. */
(function (lagbench) {
  "use strict";

  /** Return seconds from delta-coded milliseconds: the first is absolute, the others differences. */
  function secondsOf(ms) {
    let at = 0;
    return (ms || []).map((step) => (at += step) / 1000);
  }

  /** Samples that share their instants: `seconds` ascending, one array of values per column. */
  class Table {
    constructor(names, block) {
      this.names = names;
      this.seconds = secondsOf(block && block.ms);
      this.values = names.map((name) => {
        const found = block && block.columns && block.columns[name];
        return found ? found.slice() : this.seconds.map(() => null);
      });
    }

    get isEmpty() {
      return this.seconds.length === 0;
    }

    /** Append rows with absolute milliseconds; rows that are not newer than the last are ignored. */
    append(ms, columns) {
      let last = this.isEmpty ? -Infinity : this.seconds[this.seconds.length - 1];
      ms.forEach((at, row) => {
        if (at / 1000 <= last) return;
        last = at / 1000;
        this.seconds.push(last);
        this.names.forEach((name, column) => {
          const given = columns[name] ? columns[name][row] : null;
          this.values[column].push(given === undefined ? null : given);
        });
      });
    }

    /** Return the rows for people: a header and arrays of seconds and values. */
    rows() {
      return {
        header: ["seconds", ...this.names],
        length: this.seconds.length,
        row: (index) => [this.seconds[index], ...this.values.map((column) => column[index])],
      };
    }
  }

  /** A field of CSV. A text that a spreadsheet takes for a formula is quoted with an apostrophe. */
  function field(value) {
    if (value === null || value === undefined) return "";
    if (typeof value === "number") return String(value);
    const text = /^[=+\-@\t\r]/.test(value) ? "'" + value : String(value);
    return /[",\r\n]/.test(text) ? '"' + text.replace(/"/g, '""') + '"' : text;
  }

  /** Return rows (of Table.rows) as CSV after RFC 4180. */
  function csv(rows) {
    const lines = [rows.header.map(field).join(",")];
    for (let index = 0; index < rows.length; index++) {
      lines.push(rows.row(index).map(field).join(","));
    }
    return lines.join("\r\n") + "\r\n";
  }

  /** Make an element; text is set as text, so no name can bring markup. */
  function make(tag, className, text) {
    const element = document.createElement(tag);
    if (className) element.className = className;
    if (text !== undefined) element.textContent = text;
    return element;
  }

  function button(text, label, onClick) {
    const element = make("button", "small-button", text);
    element.type = "button";
    element.setAttribute("aria-label", label);
    element.addEventListener("click", onClick);
    return element;
  }

  /** A sample of a line as it is drawn: dash and width tell lines apart without colour. */
  function sample(line) {
    const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    svg.setAttribute("class", "sample ink-" + line.ink);
    svg.setAttribute("viewBox", "0 0 26 10");
    svg.setAttribute("aria-hidden", "true");
    const shape = document.createElementNS(svg.namespaceURI, line.shape === "area" ? "rect" : "line");
    const place = line.shape === "area" ? { width: 26, height: 10 } : { x1: 0, x2: 26, y1: 5, y2: 5 };
    Object.entries(place).forEach(([name, value]) => shape.setAttribute(name, value));
    shape.setAttribute("stroke-width", line.width);
    shape.setAttribute("stroke-dasharray", line.dash.join(" "));
    svg.append(shape);
    return svg;
  }

  /** A legend's entry: a button that shows or hides the line, with its value at the cursor. */
  function entry(line, onToggle) {
    const element = make("button", "entry");
    element.type = "button";
    element.setAttribute("aria-pressed", "true");
    const value = make("span", "value");
    element.append(sample(line), make("span", "", line.label), value);
    element.addEventListener("click", () => {
      const shown = element.getAttribute("aria-pressed") !== "true";
      element.setAttribute("aria-pressed", String(shown));
      onToggle(shown);
    });
    return { element, value };
  }

  /** Return the DOM of a panel with an empty legend. `rows`: a function that gives its table. */
  function frame(title, unit, rows, save) {
    const figure = make("figure", "panel");
    const head = make("figcaption", "panel-head");
    const heading = make("h3", "", title);
    heading.append(make("small", "muted", " " + unit));
    const legend = make("div", "legend");
    const buttons = make("div", "buttons");
    const file = title.toLowerCase().replace(/[^a-z0-9]+/g, "-");
    buttons.append(
      button("CSV", "Download " + title + " as CSV", () => saveCsv(file, rows())),
      button("PNG", "Download " + title + " as PNG", () => save(file)),
    );
    head.append(heading, legend, buttons);
    const plot = make("div", "plot");
    plot.tabIndex = 0;
    plot.setAttribute("role", "application");
    plot.setAttribute("aria-roledescription", "chart");
    const caption = make("p", "muted caption");
    const hint = make("p", "hint"); // shown, it has its room before it has a text
    hint.hidden = true;
    figure.append(head, caption, plot, hint, pagedTable(title + " as a table", rows));
    const describe = (text, help) => {
      caption.textContent = text;
      plot.setAttribute("aria-label", `${title} in ${unit}. ${text} ${help}`);
    };
    return { figure, legend, plot, hint, describe };
  }

  const PAGE = 100;

  const shown = (value) =>
    value === null || value === undefined
      ? "–"
      : typeof value === "number"
        ? value.toLocaleString("en-US", { maximumFractionDigits: 3 })
        : value;

  /** Return a <details> with the rows that `rows()` gives when it is opened or turned over. */
  function pagedTable(title, rows) {
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

  const HEAD = 40; // pixels above each panel, for its title and legend

  function save(blob, name) {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(blob);
    link.download = name;
    document.body.append(link);
    link.click();
    link.remove();
    window.setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  }

  function saveCsv(name, rows) {
    save(new Blob([csv(rows)], { type: "text/csv;charset=utf-8" }), name + ".csv");
  }

  function drawLegend(context, lines, left, top) {
    lines.forEach((line) => {
      context.strokeStyle = context.fillStyle = lagbench.theme.ink(line.ink);
      context.lineWidth = line.width;
      context.setLineDash(line.dash);
      context.beginPath();
      context.moveTo(left, top - 4);
      context.lineTo(left + 26, top - 4);
      context.stroke();
      context.fillStyle = lagbench.theme.ink("ink");
      context.fillText(line.label, left + 32, top);
      left += 32 + context.measureText(line.label).width + 18;
    });
  }

  /** Save panels below each other as one picture; each has `plot`, `title`, `unit`; lines have a `legend`. */
  function savePng(name, panels) {
    const ratio = window.uPlot.pxRatio;
    const canvas = document.createElement("canvas");
    canvas.width = Math.max(...panels.map((panel) => panel.plot.ctx.canvas.width));
    canvas.height = panels.reduce((sum, { plot }) => sum + plot.ctx.canvas.height + HEAD * ratio, 0);
    const context = canvas.getContext("2d");
    context.fillStyle = lagbench.theme.ink("paper");
    context.fillRect(0, 0, canvas.width, canvas.height);
    let top = 0;
    panels.forEach(({ plot, title, unit, legend }) => {
      context.save();
      context.translate(0, top);
      context.scale(ratio, ratio);
      context.fillStyle = lagbench.theme.ink("ink");
      context.font = "bold 13px system-ui, sans-serif";
      context.fillText(`${title} (${unit})`, 12, 16);
      context.font = "12px system-ui, sans-serif";
      drawLegend(context, legend ? legend() : [], 12, 33);
      context.restore();
      context.drawImage(plot.ctx.canvas, 0, top + HEAD * ratio);
      top += plot.ctx.canvas.height + HEAD * ratio;
    });
    canvas.toBlob((blob) => save(blob, name + ".png"), "image/png");
  }

  Object.assign(lagbench, { Table, secondsOf, make, button, entry, frame, pagedTable, saveCsv, savePng });
})((window.lagbench = window.lagbench || {}));
