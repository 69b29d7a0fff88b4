/* The charts of a run: panels over one time axis, with one cursor and one view, by mouse and keyboard. */
(function (lagbench) {
  "use strict";

  const FAR = 10; // samples, with Shift

  /** Make the panel's plot obey keys. `say` speaks to a screen reader. */
  function keyboard(board, panel, say) {
    let index = null;

    function point() {
      const left = panel.plot.valToPos(panel.seconds()[index], "x");
      panel.plot.setCursor({ left, top: 10 }, true, true);
    }

    /** Zoom around the cursor; uPlot sets its scales after this task, and the cursor follows. */
    function zoom(factor) {
      board.zoomAt(index === null ? null : panel.seconds()[index], factor);
      if (index !== null) window.setTimeout(point);
    }

    function moveTo(wanted) {
      const seconds = panel.seconds();
      if (seconds.length === 0) return;
      const { min, max } = board.shown();
      const first = Math.max(seconds.findIndex((second) => second >= min), 0);
      let last = seconds.length - 1;
      while (last > first && seconds[last] > max) last--;
      index = Math.max(first, Math.min(wanted(first, last), last));
      point();
      say(`${seconds[index].toFixed(1)} seconds: ${panel.read(index)}`);
    }

    const from = (step) => (first) => (index === null ? first : index + step);
    const keys = {
      ArrowRight: (event) => moveTo(from(event.shiftKey ? FAR : 1)),
      ArrowLeft: (event) => moveTo(from(event.shiftKey ? -FAR : -1)),
      Home: () => moveTo((first) => first),
      End: () => moveTo((_, last) => last),
      "+": () => zoom(0.5),
      "=": () => zoom(0.5), // the same key without Shift
      "-": () => zoom(2),
      Escape: () => board.zoom(null),
    };
    panel.target.addEventListener("keydown", (event) => {
      const act = keys[event.key];
      if (!act || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      act(event);
    });
    panel.target.addEventListener("blur", () => {
      index = null;
      panel.plot.setCursor({ left: -10, top: -10 }, true, true);
    });
  }

  const { make, button } = lagbench;
  const PAPER = 690; // CSS pixels of a printed page's width
  let boards = 0;

  function toolbar(board) {
    const bar = make("div", "toolbar");
    bar.append(
      button("Everything", "Everything: show the whole run", () => board.zoom(null)),
      button("Zoom in", "Zoom in", () => board.zoomAt(null, 0.5)),
      button("Zoom out", "Zoom out", () => board.zoomAt(null, 2)),
      button("All as PNG", "All as PNG: download all charts", () => lagbench.savePng("charts", board.panels)),
      button("Events as CSV", "Events as CSV: download", () =>
        lagbench.saveCsv("events", lagbench.eventRows(board.events)),
      ),
    );
    return bar;
  }

  /** Draw `data` (see the data block in chart_data.py) into `root`; return the charts' handle. */
  function charts(root, data) {
    const tables = {};
    const board = {
      key: "lagbench-" + ++boards,
      events: lagbench.readEvents(data.events),
      limits: data.limits || [],
      podRate: data.podRate,
      isLive: Boolean(data.isLive), // the prediction goes on where the samples end
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
    /** The last sample: a prediction may go on behind it. */
    board.until = () => {
      const ends = board.panels.map(({ measured, seconds }) => (measured || seconds)()).map((all) => all[all.length - 1]);
      return Math.max(...ends.filter(Number.isFinite));
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
    const specs = lagbench.PANELS.filter((spec) => !spec.isOptional || !data.tables || data.tables[spec.table]);
    const lines = specs.flatMap((spec) => spec.lines);
    new Set(lines.map((line) => line.table)).forEach((name) => {
      const columns = new Set(lines.filter((line) => line.table === name).map((line) => line.column));
      tables[name] = new lagbench.Table([...columns], (data.tables || {})[name]);
    });
    specs.forEach((spec) => board.panels.push(lagbench.linesPanel(board, spec, tables)));
    board.panels.push(assignment);
    root.replaceChildren(
      bar,
      ...board.panels.map((panel) => panel.figure),
      axis,
      lagbench.pagedTable("Events as a table", () => lagbench.eventRows(board.events)),
      spoken,
    );
    board.width = Math.max(board.panels[0].target.clientWidth, 240);
    board.panels.forEach((panel) => {
      panel.mount();
      keyboard(board, panel, (text) => (spoken.textContent = text));
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
        later(board.panels.filter((panel) => panel.lines.some((line) => line.table in rows)));
      },
      setPods(pods) {
        assignment.setPods(pods);
        if (assignment.plot.height !== assignment.height()) resize(board.width);
        later([assignment]);
      },
      setEvents(events) {
        board.events = lagbench.readEvents(events, board.events);
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

  /** A table that is wider than the window scrolls; the keyboard must reach it, and only then. */
  function reachWideTables() {
    document.querySelectorAll(".wide, pre").forEach((box) => {
      if (box.scrollWidth > box.clientWidth) box.tabIndex = 0;
      else box.removeAttribute("tabindex");
    });
  }

  function startReport() {
    const began = window.performance.now();
    lagbench.theme.follow();
    lagbench.theme.button(document.getElementById("theme"));
    const data = JSON.parse(document.getElementById("run-data").textContent);
    const handle = charts(document.getElementById("charts"), data);
    handle.hideEmpty();
    reachWideTables();
    window.addEventListener("resize", reachWideTables);
    document.addEventListener("toggle", reachWideTables, true);
    // After the next frame, all of it is on the screen.
    window.requestAnimationFrame(() =>
      window.setTimeout(() => window.performance.measure("lagbench:drawn", { start: began })),
    );
    lagbench.report = handle;
    return handle;
  }

  Object.assign(lagbench, { charts, startReport });
})((window.lagbench = window.lagbench || {}));
