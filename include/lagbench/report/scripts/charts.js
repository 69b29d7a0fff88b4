/* The charts of a run: panels over one time axis, with one cursor and one view. */
(function (lagbench) {
  "use strict";

  const PAPER = 690; // CSS pixels of a printed page's width
  let boards = 0;

  function toolbar(board) {
    const { make, button } = lagbench.frame;
    const bar = make("div", "toolbar");
    bar.append(
      button("Everything", "Everything: show the whole run", () => board.zoom(null)),
      button("Zoom in", "Zoom in", () => board.zoomAt(null, 0.5)),
      button("Zoom out", "Zoom out", () => board.zoomAt(null, 2)),
      button("All as PNG", "All as PNG: download all charts", () => lagbench.download.png("charts", board.panels)),
      button("Events as CSV", "Events as CSV: download", () =>
        lagbench.download.csv("events", lagbench.events.eventRows(board.events)),
      ),
    );
    return bar;
  }

  /** Draw `data` (see the data block in chart_data.py) into `root`; return the charts' handle. */
  function charts(root, data) {
    const { make } = lagbench.frame;
    const tables = {};
    const board = {
      key: "lagbench-" + ++boards,
      events: lagbench.events.readEvents(data.events),
      panels: [],
      view: null,
      width: Math.max(root.clientWidth, 240),
    };

    board.extent = () => {
      let [min, max] = [Infinity, -Infinity];
      board.panels.forEach((panel) => {
        const seconds = panel.seconds();
        if (seconds.length === 0) return;
        min = Math.min(min, seconds[0]);
        max = Math.max(max, seconds[seconds.length - 1]);
      });
      return min < max ? { min, max } : { min: Number.isFinite(min) ? min : 0, max: Number.isFinite(min) ? min + 1 : 1 };
    };
    board.shown = () => board.view || board.extent();
    board.range = () => [board.shown().min, board.shown().max];
    board.zoom = (from, to) => {
      const { min, max } = board.extent();
      const view = from === null ? null : { min: Math.max(from, min), max: Math.min(to, max) };
      if (view !== null && !(view.max > view.min)) return;
      board.view = view !== null && view.min <= min && view.max >= max ? null : view;
      redraw();
    };
    board.zoomAt = (second, factor) => {
      const { min, max } = board.shown();
      const middle = second === null ? (min + max) / 2 : second;
      const half = ((max - min) * factor) / 2;
      board.zoom(middle - half, middle + half);
    };
    board.showCursor = (plot) => {
      const panel = board.panels.find((one) => one.plot === plot);
      if (!panel) return;
      const index = plot.cursor.left < 0 || plot.cursor.idx === undefined ? null : plot.cursor.idx;
      const second = index === null ? null : plot.posToVal(plot.cursor.left, "x");
      panel.show(index, second);
      if (second !== null) clock.textContent = second.toFixed(1) + " s";
    };

    function redraw() {
      const shown = board.shown();
      board.panels.forEach(({ plot }) => plot.setScale("x", shown));
    }

    const clock = make("span", "clock");
    const spoken = make("p", "spoken");
    spoken.setAttribute("aria-live", "polite");
    const axis = make("p", "muted axis-name");
    const setOrigin = (name) => (axis.textContent = "seconds since " + name);
    setOrigin(data.origin ? data.origin.name : "the start");
    const bar = toolbar(board);
    bar.append(clock);
    const assignment = lagbench.assignmentPanel(board, data.pods);
    lagbench.PANELS.forEach((spec) => {
      const block = (data.tables || {})[spec.table];
      tables[spec.table] = new lagbench.Table(spec.lines.map((line) => line.column), block);
      board.panels.push(lagbench.panel.linesPanel(board, spec, tables[spec.table]));
    });
    board.panels.push(assignment);
    root.replaceChildren(
      bar,
      ...board.panels.map((panel) => panel.figure),
      axis,
      lagbench.pagedTable("Events as a table", () => lagbench.events.eventRows(board.events)),
      spoken,
    );
    board.width = Math.max(board.panels[0].target.clientWidth, 240);
    board.panels.forEach((panel) => {
      panel.mount();
      lagbench.keyboard(board, panel, (text) => (spoken.textContent = text));
    });

    function resize(width) {
      board.width = width;
      board.panels.forEach((panel) => panel.plot.setSize({ width, height: panel.height() }));
    }
    const fit = () => {
      const width = Math.max(board.panels[0].target.clientWidth, 240);
      if (width !== board.width) resize(width);
    };
    const watch = new ResizeObserver(fit);
    watch.observe(root);
    const deaf = lagbench.theme.listen(redraw);
    const print = () => resize(PAPER);
    window.addEventListener("beforeprint", print);
    window.addEventListener("afterprint", fit);

    let frame = null;
    const grown = new Set();
    function later(panels) {
      panels.forEach((panel) => grown.add(panel));
      if (frame !== null) return;
      frame = window.requestAnimationFrame(() => {
        frame = null;
        grown.forEach((panel) => panel.update());
        grown.clear();
        redraw();
      });
    }

    return {
      append(rows) {
        Object.entries(rows).forEach(([name, { ms, columns }]) => tables[name].append(ms, columns));
        later(board.panels.filter((panel) => panel.table in rows));
      },
      setPods(pods) {
        assignment.setPods(pods);
        if (assignment.plot.height !== assignment.height()) resize(board.width);
        later([assignment]);
      },
      setEvents(events) {
        board.events = lagbench.events.readEvents(events, board.events);
        later([]);
      },
      setOrigin,
      /** Hide the panels without a value, and name them: of a run that has ended none comes. */
      hideEmpty() {
        const empty = board.panels.filter((panel) => {
          const { length, row } = panel.rows();
          return !Array.from({ length }, (_, index) => row(index)).some((cells) => cells.slice(1).some(Number.isFinite));
        });
        empty.forEach((panel) => (panel.figure.hidden = true));
        if (empty.length > 0) axis.append("; not measured: " + empty.map((panel) => panel.title).join(", "));
      },
      zoom: (from, to) => board.zoom(from, to),
      shown: () => board.shown(),
      destroy() {
        window.cancelAnimationFrame(frame);
        watch.disconnect();
        deaf();
        window.removeEventListener("beforeprint", print);
        window.removeEventListener("afterprint", fit);
        board.panels.forEach(({ plot }) => plot.destroy());
        root.replaceChildren();
      },
    };
  }

  lagbench.charts = charts;
})((window.lagbench = window.lagbench || {}));
