/* Columns of samples: decode them from the data block, let them grow, write them as CSV. */
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

  lagbench.Table = Table;
  lagbench.secondsOf = secondsOf;
  lagbench.csv = csv;
})((window.lagbench = window.lagbench || {}));
