/* The panels over the time axis: what each shows, its samples and caption, and the assignment of pods. */
(function (lagbench) {
  "use strict";

  const SOLID = [];
  const DASHED = [6, 4];
  const DOTTED = [2, 3];
  const main = (column, look) => ({ column, label: column, ink: "main", width: 2, dash: SOLID, shape: "line", ...look });
  const second = (column, look) => main(column, { ink: "second", width: 1.5, dash: DASHED, ...look });
  const predicted = (column, look) =>
    main(column, { table: "predicted", label: "predicted", ink: "muted", width: 1.5, dash: DOTTED, ...look });
  const steps = { shape: "steps" };
  const capacity = second("ready", { table: "replicas", label: "capacity of the Ready pods", isRate: true, ...steps });

  /** What each panel shows: its table and lines, told apart without colour, and its events. */
  const PANELS = [
    ["lag", "Lag", "messages", 0, [main("total"), second("hottest", { label: "hottest partition" }), predicted("lag")], ["spikes", "actions"], ["phases"]],
    ["replicas", "Replicas", "pods", 0, [second("desired", steps), main("ready", steps), predicted("replicas", { label: "predicted, desired", ...steps })], ["actions"], ["changes"]],
    ["rates", "Rate", "messages per second", 0, [main("offered", { label: "produced", ink: "area", width: 1, shape: "area" }), main("consumed", { width: 1.75 }), capacity], ["episodes", "actions"]],
    ["latency", "Time lag p99", "seconds", 2, [main("p99", { width: 1.5 })], ["actions"], ["phases"]],
    ["cpu", "CPU of a consumer pod", "cores", 3, [second("highest"), main("mean", { width: 1.75 })], ["actions"]],
  ].map(([table, title, unit, digits, lines, bands, notes]) => ({
    table, title, unit, digits, bands, notes: notes || [], isOptional: table === "cpu",
    lines: lines.map((line) => ({ table, ...line })),
  }));

  const HEIGHT = 170;
  const NEAR = 14; // pixels to both sides of the cursor
  const MOST_ABOVE = 3; // a limit further above the values would make them flat
  const GUTTER = 64; // the same for all panels, so that their time axes stand below each other
  const HELP = "Left and right arrow move the cursor, plus and minus zoom, Escape shows everything.";
  const ink = (name) => () => lagbench.theme.ink(name);

  function short(value) {
    const size = Math.abs(value);
    if (size >= 1e6) return +(value / 1e6).toFixed(2) + "M";
    if (size >= 1e4) return +(value / 1e3).toFixed(1) + "k";
    return String(+value.toFixed(3));
  }

  /** Options of uPlot that all panels share: one cursor, one view, zoom by drag. */
  function options(board, { height, y, splits, values, series, before, isPlain, ...marks }) {
    const axis = { stroke: ink("muted"), font: lagbench.FONT, ticks: { stroke: ink("line"), width: 1, size: 5 } };
    const grid = { show: !isPlain, stroke: ink("line"), width: 1 };
    const named = (_, at) => at.map(short);
    return {
      width: board.width,
      height,
      padding: [8, 14, 0, 0],
      legend: { show: false },
      scales: { x: { time: false, range: () => board.range() }, y },
      series: [{}, ...series],
      axes: [
        { ...axis, size: 30, space: 60, grid, values: (_, at) => at.map((value) => short(value) + " s") },
        { ...axis, size: GUTTER, space: 26, grid, splits, values: values || named },
      ],
      cursor: {
        y: false,
        sync: {
          key: board.key,
          setSeries: false,
          scales: ["x", null],
          filters: { pub: (type) => type === "mousemove" }, // each panel zooms by the board, once
        },
        drag: { x: true, y: false, setScale: false },
        bind: { dblclick: () => () => board.zoom(null) },
        points: { size: 7 },
      },
      hooks: {
        drawClear: [
          (plot) => {
            lagbench.drawBands(plot, { ...marks, until: board.until() }, board.events);
            if (before) before(plot);
          },
        ],
        draw: [(plot) => lagbench.drawNotes(plot, { ...marks, limits: marks.limits() }, board.events)],
        setCursor: [(plot) => board.showCursor(plot)],
        setSelect: [
          (plot) => {
            const { left, width } = plot.select;
            if (width < 4) return;
            plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
            board.zoom(plot.posToVal(left, "x"), plot.posToVal(left + width, "x"));
          },
        ],
      },
    };
  }

  /** Return the samples between two gaps: no line shows them, so that they are drawn as points. */
  function isolated(plot, at) {
    const isGap = (index) => plot.data[at][index] === null || plot.data[at][index] === undefined;
    const [first, last] = plot.series[0].idxs;
    const found = [];
    for (let index = first; index <= last; index++) {
      if (!isGap(index) && isGap(index - 1) && isGap(index + 1)) found.push(index);
    }
    return found.length ? found : null;
  }

  function series(line) {
    const stepped = window.uPlot.paths.stepped({ align: 1 });
    return {
      label: line.label,
      stroke: ink(line.ink),
      fill: line.shape === "area" ? ink("area-fill") : undefined,
      width: line.width,
      dash: line.dash,
      paths: line.shape === "steps" ? stepped : undefined,
      points: { show: false, filter: isolated, fill: ink(line.ink) },
      spanGaps: false,
    };
  }

  /** Return the values of a line of another table at `seconds`: steps hold, a line is interpolated. */
  function valuesAt(seconds, table, line) {
    const values = table.values[table.names.indexOf(line.column)];
    const known = table.seconds;
    let next = 0;
    return seconds.map((second) => {
      while (next < known.length && known[next] <= second) next++;
      const [before, after] = [values[next - 1], values[next]];
      if (next === 0 || (next === known.length && second > known[next - 1] + 1)) return null;
      if (line.shape === "steps" || next === known.length || before === null || after === null) return before;
      return before + ((after - before) * (second - known[next - 1])) / (known[next] - known[next - 1]);
    });
  }

  /** Return the panel's instants and a column for each line; the live page's go on as predicted. */
  function joined(board, spec, tables) {
    const own = tables[spec.table];
    const last = own.isEmpty ? -Infinity : own.seconds[own.seconds.length - 1];
    const isAhead = board.isLive && spec.lines.some((line) => line.table === "predicted");
    const late = isAhead ? tables.predicted.seconds.filter((second) => second > last) : [];
    const seconds = late.length ? [...own.seconds, ...late] : own.seconds;
    const values = spec.lines.map((line) => {
      if (line.table === spec.table) {
        const found = own.values[own.names.indexOf(line.column)];
        return late.length ? [...found, ...late.map(() => null)] : found;
      }
      const found = valuesAt(seconds, tables[line.table], line);
      return line.isRate ? found.map((value) => (value === null || !board.podRate ? null : value * board.podRate)) : found;
    });
    return { seconds, values };
  }

  /** Make the panel of `spec` with the samples of `tables`. */
  function linesPanel(board, spec, tables) {
    const number = (value) =>
      value === null || value === undefined
        ? "–"
        : value.toLocaleString("en-US", { maximumFractionDigits: spec.digits });
    let { seconds, values } = joined(board, spec, tables);
    const isThere = (line, at) => line.table === spec.table || values[at].some(Number.isFinite);
    const shown = () => spec.lines.map((line, at) => [line, values[at]]).filter(([line], at) => isThere(line, at));
    const limits = () => lagbench.limitsOf(spec.table, board.limits, board.events);
    const stepAt = (from, to) =>
      spec.notes.includes("changes") ? board.events.changes.filter(({ start }) => start > from && start <= to) : [];
    const tell = (change) => `${lagbench.changeText(change)} (at ${change.start.toFixed(1)} s)`;
    const panel = {
      ...spec,
      seconds: () => seconds,
      measured: () => tables[spec.table].seconds,
      read: (index) =>
        [
          ...shown().map(([line, column]) => `${line.label} ${number(column[index])}`),
          ...stepAt(index ? seconds[index - 1] : -Infinity, seconds[index]).map(tell),
        ].join(", "),
      update() {
        ({ seconds, values } = joined(board, spec, tables));
        panel.plot.setData([seconds, ...values], false);
        describe();
      },
      legend: () => shown().map(([line]) => line),
      rows: () => {
        const found = shown();
        return {
          header: ["seconds", ...found.map(([line]) => (line.table === spec.table ? line.column : line.label))],
          length: seconds.length,
          row: (index) => [seconds[index], ...found.map(([, column]) => column[index])],
        };
      },
    };
    const made = lagbench.frame(spec.title, spec.unit, panel.rows, (file) =>
      lagbench.savePng(file, [panel]),
    );
    const entries = spec.lines.map((line, at) => {
      const entry = lagbench.entry(line, (shown) => panel.plot.setSeries(at + 1, { show: shown }));
      made.legend.append(entry.element);
      return entry;
    });
    const limit = lagbench.make("span", "key-limit", "limit (hatched: too much)");
    made.legend.append(limit);
    made.hint.hidden = !spec.notes.includes("changes");

    /** Say the highest value of each line in the caption, and which lines there are. */
    function describe() {
      entries.forEach((entry, at) => (entry.element.hidden = !isThere(spec.lines[at], at)));
      limit.hidden = limits().length === 0;
      const highest = shown().flatMap(([line, column]) => {
        let top = null;
        column.forEach((value, at) => {
          if (Number.isFinite(value) && (top === null || value > column[top])) top = at;
        });
        return top === null ? [] : [`${line.label} ${number(column[top])} (at ${seconds[top].toFixed(0)} s)`];
      });
      const found = [highest.length ? "Highest: " + highest.join(", ") : "No value", ...limits().map(({ text }) => text)];
      made.describe(found.join("; ") + ".", HELP);
    }

    panel.show = (index, second) => {
      entries.forEach((entry, at) => {
        entry.value.textContent = index === null ? "" : number(values[at][index]);
      });
      if (!spec.notes.includes("changes")) return;
      const reach = ((board.shown().max - board.shown().min) * NEAR) / board.width;
      const near = second === null || second === undefined ? [] : stepAt(second - reach, second + reach);
      made.hint.textContent = near.map(tell).join("; ");
    };
    panel.figure = made.figure;
    panel.target = made.plot;
    panel.height = () => HEIGHT;
    panel.mount = () => {
      const heights = () => limits().flatMap(({ value }) => (value === undefined ? [] : [value]));
      const range = (_, low, high) => {
        const top = Math.max(high, ...heights().filter((value) => value <= MOST_ABOVE * high));
        return [Math.min(low || 0, 0), top > 0 ? top * 1.12 : 1];
      };
      const given = { height: HEIGHT, y: { range }, series: spec.lines.map(series), bands: spec.bands, notes: spec.notes, limits };
      panel.plot = new window.uPlot(options(board, given), [seconds, ...values], made.plot);
      describe();
    };
    return panel;
  }

  const ROW = 18;
  const LEAST = 120;
  const MOST = 620;
  const LETTERS = 9;
  const BRIGHT = 122; // of 255: from here on dark text is read better than white

  const rgb = (hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));

  /** Red, green and blue between --held-low and --held-high; a pod that holds nothing has its own. */
  function colour(count, most) {
    const ink = lagbench.theme.ink;
    if (count === 0) return rgb(ink("held-none"));
    const share = most > 1 ? (count - 1) / (most - 1) : 1;
    const low = rgb(ink("held-low"));
    return rgb(ink("held-high")).map((high, at) => Math.round(low[at] + share * (high - low[at])));
  }

  /** The colour of a text that stands on `parts`: the one of two that contrasts more. */
  function textOn([red, green, blue]) {
    const brightness = 0.299 * red + 0.587 * green + 0.114 * blue;
    return lagbench.theme.ink(brightness > BRIGHT ? "on-light" : "on-dark");
  }

  /** Decode the pods of a data block; a pod ends when it is gone, else with the run. */
  function readPods(given) {
    return (given || []).map((pod) => ({
      pod: pod.pod,
      name: pod.pod.replace(/^consumer-/, ""),
      seconds: lagbench.secondsOf(pod.ms),
      partitions: pod.partitions,
      gone: pod.gone === null || pod.gone === undefined ? Infinity : pod.gone / 1000,
    }));
  }

  /** Return the partitions that `pod` holds at `second`; null: it is not there. */
  function heldAt(pod, second) {
    if (second >= pod.gone) return null;
    let found = null;
    pod.seconds.forEach((since, at) => (found = since <= second ? pod.partitions[at] : found));
    return found;
  }

  function drawSpans(plot, pods, most, end) {
    lagbench.inside(plot, (context, box) => {
      const row = box.height / Math.max(pods.length, 1);
      context.textBaseline = "middle";
      pods.forEach((pod, index) => {
        pod.seconds.forEach((since, at) => {
          const until = Math.min(at + 1 < pod.seconds.length ? pod.seconds[at + 1] : end, pod.gone);
          const left = box.x(since);
          const width = box.x(until) - left;
          if (width <= 0 || left > box.left + box.width) return;
          const count = pod.partitions[at];
          const parts = colour(count, most);
          context.fillStyle = `rgb(${parts.join(",")})`;
          context.fillRect(left, box.top + index * row + 1, width, Math.max(row - 2, 1));
          if (row < 11) return;
          // The number stands in the cell: the colour is not needed to read it.
          const text = String(count);
          if (width < context.measureText(text).width + 6) return;
          context.fillStyle = textOn(parts);
          context.fillText(text, Math.max(left, box.left) + 3, box.top + (index + 0.5) * row);
        });
      });
    });
  }

  /** Make the panel; `given` are the pods of a data block. */
  function assignmentPanel(board, given) {
    let pods = readPods(given);
    const panel = { title: "Assignment", unit: "partitions held by each pod", lines: [] };
    const instants = () => [...new Set(pods.flatMap((pod) => pod.seconds))].sort((a, b) => a - b);
    const most = () => pods.reduce((high, pod) => pod.partitions.reduce((a, b) => Math.max(a, b), high), 1);
    let seconds = instants();
    const data = () => [seconds, seconds.map(() => null)];
    panel.seconds = () => seconds;
    panel.read = (index) =>
      pods
        .map((pod) => [pod.name, heldAt(pod, seconds[index])])
        .filter(([, held]) => held !== null)
        .map(([name, held]) => `${name} ${held}`)
        .join(", ");
    panel.rows = () => ({
      header: ["seconds", ...pods.map((pod) => pod.pod)],
      length: seconds.length,
      row: (index) => [seconds[index], ...pods.map((pod) => heldAt(pod, seconds[index]))],
    });
    const made = lagbench.frame(panel.title, panel.unit, panel.rows, (file) =>
      lagbench.savePng(file, [panel]),
    );
    const reading = lagbench.make("span", "value");
    made.legend.append(lagbench.make("span", "muted", "0 is an idle pod"), reading);
    panel.show = (index, second) => {
      const held = index === null ? [] : pods.map((pod) => heldAt(pod, second)).filter((n) => n !== null);
      const busy = held.filter((count) => count > 0).length;
      reading.textContent = index === null ? "" : `${busy} of ${held.length} pods hold partitions`;
    };
    panel.figure = made.figure;
    panel.target = made.plot;
    panel.height = () => Math.min(Math.max(LEAST, pods.length * ROW + 40), MOST);
    panel.update = () => {
      panel.plot.setData(data(), false);
      describe();
    };
    function describe() {
      const holding = seconds.map((second) => pods.filter((pod) => heldAt(pod, second) > 0).length);
      const top = holding.reduce((best, count, at) => (count > (holding[best] || 0) ? at : best), 0);
      const when = holding.length ? `${holding[top]} (at ${seconds[top].toFixed(0)} s)` : "–";
      made.describe(`Most pods with partitions: ${when}; pods in all: ${pods.length}.`, HELP);
    }
    panel.setPods = (now) => {
      pods = readPods(now);
      seconds = instants();
    };
    panel.mount = () => {
      const last = (name) => name.slice(name.lastIndexOf("-") + 1).slice(-LETTERS + 1);
      const letters = (name) => (name.length > LETTERS ? "…" + last(name) : name);
      const middle = (at) => pods.length - at - 0.5; // the first pod stands at the top
      const step = () => Math.ceil((pods.length * 12) / Math.max(panel.height() - 40, 1)) || 1;
      const given = {
        height: panel.height(),
        y: { range: () => [0, Math.max(pods.length, 1)] },
        splits: () => pods.map((_, at) => middle(at)).filter((_, at) => at % step() === 0),
        values: (_, at) => at.map((value) => letters(pods[Math.round(pods.length - value - 0.5)]?.name || "")),
        series: [{ paths: () => null, points: { show: false } }],
        bands: [],
        notes: [],
        limits: () => [],
        isPlain: true, // a grid would cross the numbers
        before: (plot) => drawSpans(plot, pods, most(), board.until()),
      };
      panel.plot = new window.uPlot(options(board, given), data(), made.plot);
      describe();
    };
    return panel;
  }

  Object.assign(lagbench, { PANELS, linesPanel, assignmentPanel });
})((window.lagbench = window.lagbench || {}));
