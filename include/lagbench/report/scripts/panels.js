/* The panels over the time axis: what each shows, the events drawn in it, and the assignment of pods. */
(function (lagbench) {
  "use strict";

  const SOLID = [];
  const DASHED = [6, 4];
  const main = (column, look) => ({ column, label: column, ink: "main", width: 2, dash: SOLID, shape: "line", ...look });
  const second = (column, look) => main(column, { ink: "second", width: 1.5, dash: DASHED, ...look });

  /** What each panel shows: its table and lines, told apart without colour, and its events. */
  const PANELS = [
    ["lag", "Lag", "messages", 0, [main("total"), second("hottest", { label: "hottest partition" })], ["spikes", "actions"]],
    ["replicas", "Replicas", "pods", 0, [second("desired", { shape: "steps" }), main("ready", { shape: "steps" })], ["actions"], ["changes"]],
    ["rates", "Rate", "messages per second", 0, [main("offered", { ink: "area", width: 1, shape: "area" }), main("consumed", { width: 1.75 })], ["episodes", "actions"]],
    ["latency", "Time lag p99", "seconds", 2, [main("p99", { width: 1.5 })], ["actions"], ["phases"]],
    ["cpu", "CPU of a consumer pod", "cores", 3, [second("highest"), main("mean", { width: 1.75 })], ["actions"]],
  ].map(([table, title, unit, digits, lines, bands, notes]) => ({ table, title, unit, digits, lines, bands, notes: notes || [] }));

  const KINDS = ["phases", "spikes", "actions", "episodes", "changes", "marks"];
  /** A rebalance's band has a sign at its top, so that colour is never alone. */
  const TRIGGERS = {
    scale_up: { ink: "up", sign: "▲", name: "rebalance of a scale-up" },
    scale_down: { ink: "down", sign: "▼", name: "rebalance of a scale-down" },
    pod_death: { ink: "death", sign: "✕", name: "rebalance after a pod's death" },
    action: { ink: "action", sign: "◆", name: "rebalance by an action" },
  };
  const OTHER = { ink: "muted", sign: "■", name: "rebalance of another cause" };
  const FONT = "11px system-ui, sans-serif";
  const ROOM = 13; // pixels between two texts

  const trigger = (event) => TRIGGERS[event.trigger] || OTHER;

  function looks(kind, event) {
    if (kind === "spikes") return { ink: "spike", text: event.name };
    if (kind === "actions") return { ink: "action", text: event.name, edge: true };
    return { ink: trigger(event).ink, text: trigger(event).sign };
  }

  /** Return the events of a data block, in seconds; a kind that is not given is empty. */
  function readEvents(given, before) {
    const found = {};
    const seconds = (ms) => (ms === null || ms === undefined ? null : ms / 1000);
    KINDS.forEach((kind) => {
      found[kind] = !(given && given[kind])
        ? (before && before[kind]) || []
        : given[kind].map((event) => ({
            ...event,
            start: seconds("at" in event ? event.at : event.start),
            end: "at" in event ? seconds(event.at) : seconds(event.end),
          }));
    });
    return found;
  }

  /** Run `draw` with a canvas context in CSS pixels that is clipped to the plot. */
  function inside(plot, draw) {
    const ratio = window.uPlot.pxRatio;
    const box = plot.bbox;
    const context = plot.ctx;
    context.save();
    context.beginPath();
    context.rect(box.left, box.top, box.width, box.height);
    context.clip();
    context.scale(ratio, ratio);
    context.font = FONT;
    context.textAlign = "left"; // the axes leave theirs
    context.textBaseline = "alphabetic";
    draw(context, {
      left: box.left / ratio,
      top: box.top / ratio,
      width: box.width / ratio,
      height: box.height / ratio,
      x: (second) => plot.valToPos(second, "x", true) / ratio,
    });
    context.restore();
  }

  /** Draw below the lines: the bands of the panel's kinds and a dotted line for each phase. */
  function drawBands(plot, kinds, events) {
    inside(plot, (context, box) => {
      kinds.forEach((kind) =>
        events[kind].forEach((event) => {
          const look = looks(kind, event);
          const left = box.x(event.start);
          const right = event.end === null ? box.left + box.width : box.x(event.end);
          context.fillStyle = context.strokeStyle = lagbench.theme.ink(look.ink);
          context.globalAlpha = 0.2;
          context.fillRect(left, box.top, Math.max(right - left, 2), box.height);
          context.globalAlpha = 0.8;
          if (look.edge) context.strokeRect(left, box.top - 1, Math.max(right - left, 2), box.height + 2);
        }),
      );
      context.globalAlpha = 1;
      context.strokeStyle = lagbench.theme.ink("muted");
      [...events.phases, ...events.marks].forEach((event) => {
        context.setLineDash(events.phases.includes(event) ? [1, 4] : []);
        context.beginPath();
        context.moveTo(box.x(event.start), box.top);
        context.lineTo(box.x(event.start), box.top + box.height);
        context.stroke();
      });
    });
  }

  /** Draw above the lines: names and signs of the bands, replicas before and after each change. */
  function drawNotes(plot, kinds, notes, events) {
    inside(plot, (context, box) => {
      kinds.forEach((kind) => {
        let free = -Infinity;
        const row = kind === "actions" ? 24 : 11;
        events[kind].forEach((event) => {
          const look = looks(kind, event);
          const left = Math.max(box.x(event.start), box.left) + 3;
          if (left < free || left > box.left + box.width) return;
          context.fillStyle = lagbench.theme.ink("ink");
          context.fillText(look.text, left, box.top + row);
          free = left + context.measureText(look.text).width + 4;
        });
      });
      if (notes.includes("phases")) upright(context, box, [...events.phases, ...events.marks]);
      if (notes.includes("changes")) changes(plot, context, box, events.changes);
    });
  }

  function upright(context, box, named) {
    let free = -Infinity;
    context.fillStyle = lagbench.theme.ink("muted");
    named
      .slice()
      .sort((one, other) => one.start - other.start)
      .forEach((event) => {
        const left = box.x(event.start);
        if (left < free || left < box.left) return;
        free = left + ROOM;
        context.save();
        const isLast = left + ROOM > box.left + box.width; // its name stands before it
        context.translate(isLast ? left - 3 : left + 10, box.top + box.height - 4);
        context.rotate(-Math.PI / 2);
        context.fillText(event.name, 0, 0);
        context.restore();
      });
  }

  function changes(plot, context, box, events) {
    let free = -Infinity;
    context.fillStyle = lagbench.theme.ink("ink");
    events.forEach((event) => {
      const text = event.before + "→" + event.after;
      const left = box.x(event.start);
      if (left < free) return;
      free = left + context.measureText(text).width + 6;
      const top = plot.valToPos(event.after, "y", true) / window.uPlot.pxRatio;
      context.fillText(text, left + 2, Math.max(top - 5, box.top + 11));
    });
  }

  /** Return the events as rows for people, by their start. */
  function eventRows(events) {
    const name = (kind, event) =>
      ({
        episodes: () => trigger(event).name,
        changes: () => "replicas " + event.before + " → " + event.after,
        actions: () => "action: " + event.name,
      })[kind]?.() || event.name;
    const all = KINDS.flatMap((kind) =>
      events[kind].map((event) => [event.start, event.end, name(kind, event)]),
    ).sort((one, other) => one[0] - other[0]);
    return { header: ["from, seconds", "to, seconds", "event"], length: all.length, row: (index) => all[index] };
  }

  const HEIGHT = 170;
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
  function options(board, { height, y, splits, values, series, bands, notes, before, isPlain }) {
    const axis = { stroke: ink("muted"), font: FONT, ticks: { stroke: ink("line"), width: 1, size: 5 } };
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
        { ...axis, size: 30, space: 60, grid, values: named },
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
            drawBands(plot, bands, board.events);
            if (before) before(plot);
          },
        ],
        draw: [(plot) => drawNotes(plot, bands, notes, board.events)],
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

  /** Make the panel of `spec` with the samples of `table`. */
  function linesPanel(board, spec, table) {
    const number = (value) =>
      value === null || value === undefined
        ? "–"
        : value.toLocaleString("en-US", { maximumFractionDigits: spec.digits });
    const panel = {
      ...spec,
      seconds: () => table.seconds,
      read: (index) =>
        spec.lines.map((line, at) => `${line.label} ${number(table.values[at][index])}`).join(", "),
      update: () => panel.plot.setData([table.seconds, ...table.values], false),
      rows: () => table.rows(),
    };
    const made = lagbench.frame(spec.title, spec.unit, HELP, panel.rows, (file) =>
      lagbench.savePng(file, [panel]),
    );
    const entries = spec.lines.map((line, at) => {
      const entry = lagbench.entry(line, (shown) => panel.plot.setSeries(at + 1, { show: shown }));
      made.legend.append(entry.element);
      return entry;
    });
    panel.show = (index) =>
      entries.forEach((entry, at) => {
        entry.value.textContent = index === null ? "" : number(table.values[at][index]);
      });
    panel.figure = made.figure;
    panel.target = made.plot;
    panel.height = () => HEIGHT;
    panel.mount = () => {
      const y = { range: (_, low, high) => [Math.min(low || 0, 0), high > 0 ? high * 1.12 : 1] };
      const given = { height: HEIGHT, y, series: spec.lines.map(series), bands: spec.bands, notes: spec.notes };
      panel.plot = new window.uPlot(options(board, given), [table.seconds, ...table.values], made.plot);
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
    inside(plot, (context, box) => {
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
    const made = lagbench.frame(panel.title, panel.unit, HELP, panel.rows, (file) =>
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
    panel.update = () => panel.plot.setData(data(), false);
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
        isPlain: true, // a grid would cross the numbers
        before: (plot) => drawSpans(plot, pods, most(), board.extent().max),
      };
      panel.plot = new window.uPlot(options(board, given), data(), made.plot);
    };
    return panel;
  }

  Object.assign(lagbench, { PANELS, readEvents, eventRows, linesPanel, assignmentPanel });
})((window.lagbench = window.lagbench || {}));
