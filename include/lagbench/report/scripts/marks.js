/* What stands in the charts beside their lines: bands and names of events, and the limits of SLOs. */
(function (lagbench) {
  "use strict";

  const KINDS = ["phases", "spikes", "actions", "episodes", "changes"];
  /** A rebalance's band has a sign at its top, so that colour is never alone. */
  const TRIGGERS = {
    scale_up: { ink: "up", sign: "▲", name: "rebalance of a scale-up" },
    scale_down: { ink: "down", sign: "▼", name: "rebalance of a scale-down" },
    pod_death: { ink: "death", sign: "✕", name: "rebalance after a pod's death" },
    action: { ink: "action", sign: "◆", name: "rebalance by an action" },
  };
  const OTHER = { ink: "muted", sign: "■", name: "rebalance of another cause" };
  const FONT = "11px system-ui, sans-serif";
  const ROOM = 13; // pixels of a line of text
  const STEPS = Array.from({ length: 20 }, (_, step) => step);

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

  /** Return the limits that a chart of `table` shows: a height (`value`), or an instant (`at`). */
  function limitsOf(table, given, events) {
    const number = Object.fromEntries((given || []).map((slo) => [slo.name, slo.number]));
    const known = (name) => number[name] !== null && number[name] !== undefined;
    const seconds = (name) => number[name].toLocaleString("en-US") + " s";
    if (table === "latency")
      return ["p95", "p99"]
        .map((rank) => [rank, `time_lag_${rank}_seconds`])
        .filter(([, name]) => known(name))
        .map(([rank, name]) => ({ value: number[name], text: `limit of ${rank}: ${seconds(name)}` }));
    if (table === "replicas" && known("reaction_seconds"))
      return events.spikes.map((spike) => ({
        at: spike.start + number.reaction_seconds,
        text: `limit of the reaction: ${seconds("reaction_seconds")}`,
      }));
    const last = events.spikes[events.spikes.length - 1];
    if (table === "lag" && known("drain_seconds") && last && last.end !== null)
      return [{ at: last.end + number.drain_seconds, text: `limit of the drain: ${seconds("drain_seconds")}` }];
    return [];
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
      y: (value) => plot.valToPos(value, "y", true) / ratio,
    });
    context.restore();
  }

  /** Draw below the lines: the bands of the panel's kinds and a dotted line for each phase. */
  function drawBands(plot, { bands, notes, until }, events) {
    inside(plot, (context, box) => {
      bands.forEach((kind) =>
        events[kind].forEach((event) => {
          const look = looks(kind, event);
          const left = box.x(event.start);
          const right = box.x(event.end === null ? until : event.end);
          context.fillStyle = context.strokeStyle = lagbench.theme.ink(look.ink);
          context.globalAlpha = 0.2;
          context.fillRect(left, box.top, Math.max(right - left, 2), box.height);
          context.globalAlpha = 0.8;
          if (look.edge) context.strokeRect(left, box.top - 1, Math.max(right - left, 2), box.height + 2);
        }),
      );
      context.globalAlpha = 1;
      if (!notes.includes("phases")) return; // no line without its name
      context.strokeStyle = lagbench.theme.ink("muted");
      context.setLineDash([1, 4]);
      events.phases.forEach(({ start }) => stroke(context, [[box.x(start), box.top], [box.x(start), box.top + box.height]]));
    });
  }

  function stroke(context, points) {
    context.beginPath();
    points.forEach(([x, y], at) => (at === 0 ? context.moveTo(x, y) : context.lineTo(x, y)));
    context.stroke();
  }

  /** Draw above the lines: limits, names and signs of the bands, replicas before and after each change. */
  function drawNotes(plot, { bands, notes, limits }, events) {
    inside(plot, (context, box) => {
      const taken = [];
      if (notes.includes("phases")) upright(context, box, taken, events.phases);
      context.fillStyle = lagbench.theme.ink("ink");
      bands.forEach((kind) =>
        events[kind].forEach((event) => {
          const left = box.x(event.start);
          const right = event.end === null ? Infinity : box.x(event.end);
          if (right < box.left || left > box.left + box.width) return;
          const rows = (kind === "actions" ? [24, 37] : [11, 24]).map((row) => box.top + row);
          write(context, box, taken, looks(kind, event).text, [Math.max(left, box.left) + 3], rows);
        }),
      );
      limits.forEach((limit) => drawLimit(context, box, taken, limit));
      context.fillStyle = lagbench.theme.ink("ink");
      if (notes.includes("changes"))
        events.changes.forEach((event) => {
          const top = Math.max(box.y(event.after) - 5, box.top + 11);
          const left = box.x(event.start) + 2;
          if (left < box.left || left > box.left + box.width) return;
          write(context, box, taken, event.before + "→" + event.after, [left], [top, top + ROOM + 5]);
        });
    });
  }

  /** Take the place of a text if no other has it; return whether it is free. */
  function take(taken, left, top, right, bottom) {
    const isFree = taken.every((one) => right < one[0] || left > one[2] || bottom < one[1] || top > one[3]);
    if (isFree) taken.push([left, top, right, bottom]);
    return isFree;
  }

  /** Fill a text that stays readable where it crosses a line. */
  function haloed(context, text, x, y) {
    context.save();
    context.setLineDash([]);
    context.lineWidth = 3;
    context.lineJoin = "round";
    context.strokeStyle = lagbench.theme.ink("paper");
    context.strokeText(text, x, y);
    context.restore();
    context.fillText(text, x, y);
  }

  /** Write a text at the first of `lefts` and `rows` where none stands; without a place it is left out. */
  function write(context, box, taken, text, lefts, rows) {
    const width = context.measureText(text).width;
    const inBox = (left) => Math.max(Math.min(left, box.left + box.width - width - 3), box.left + 3);
    const places = rows.flatMap((row) => lefts.map((left) => [inBox(left), row]));
    const place = places.find(([left, row]) => take(taken, left - 3, row - ROOM + 2, left + width + 3, row + 2));
    if (place) haloed(context, text, ...place);
  }

  /** Draw a limit with hatches on its red side, and its text; one outside the chart has the text alone. */
  function drawLimit(context, box, taken, { value, at, text }) {
    const [right, bottom] = [box.left + box.width, box.top + box.height];
    const isLevel = value !== undefined;
    const place = isLevel ? box.y(value) : box.x(at);
    const isOut = isLevel ? place < box.top : place > right;
    context.strokeStyle = context.fillStyle = lagbench.theme.ink("fail");
    context.setLineDash([]);
    context.lineWidth = 1.5;
    if (!isLevel && place < box.left) return;
    if (!isOut) {
      stroke(context, isLevel ? [[box.left, place], [right, place]] : [[place, box.top], [place, bottom]]);
      context.lineWidth = 0.75;
      const ends = isLevel ? [box.left, right] : [box.top, bottom];
      for (let along = ends[0]; along < ends[1]; along += 7)
        stroke(context, isLevel ? [[along, place], [along + 5, place - 6]] : [[place, along + 6], [place + 6, along]]);
    }
    const width = context.measureText(text).width;
    if (isLevel) {
      const under = place + 12 < bottom ? place + 12 : place - 8;
      const rows = isOut ? [box.top + 11, box.top + 24] : [under, place - 8];
      const lefts = STEPS.map((step) => right - width - 6 - step * 2 * ROOM);
      write(context, box, taken, isOut ? `${text}, above ↑` : text, lefts, rows);
    } else {
      const rows = STEPS.map((step) => bottom - 6 - step * ROOM).filter((row) => row > box.top + ROOM);
      write(context, box, taken, isOut ? `${text}, later →` : text, isOut ? [right] : [place - width - 4, place + 10], rows);
    }
  }

  function upright(context, box, taken, named) {
    context.fillStyle = lagbench.theme.ink("muted");
    named
      .slice()
      .sort((one, other) => one.start - other.start)
      .forEach((event) => {
        const left = box.x(event.start);
        if (left < box.left || left > box.left + box.width) return;
        const isLast = left + ROOM > box.left + box.width; // its name stands before it
        const [foot, length] = [box.top + box.height - 4, context.measureText(event.name).width];
        const from = isLast ? left - ROOM : left;
        if (!take(taken, from, foot - length, from + ROOM - 1, foot)) return;
        context.save();
        context.translate(isLast ? left - 3 : left + 10, foot);
        context.rotate(-Math.PI / 2);
        haloed(context, event.name, 0, 0);
        context.restore();
      });
  }

  const changeText = (change) => `replicas ${change.before} → ${change.after}${change.cause ? ": " + change.cause : ""}`;

  /** Return the events as rows for people, by their start. */
  function eventRows(events) {
    const name = (kind, event) =>
      ({
        episodes: () => trigger(event).name,
        changes: () => changeText(event),
        actions: () => "action: " + event.name,
      })[kind]?.() || event.name;
    const all = KINDS.flatMap((kind) =>
      events[kind].map((event) => [event.start, event.end, name(kind, event)]),
    ).sort((one, other) => one[0] - other[0]);
    return { header: ["from, seconds", "to, seconds", "event"], length: all.length, row: (index) => all[index] };
  }

  Object.assign(lagbench, { FONT, readEvents, limitsOf, inside, drawBands, drawNotes, changeText, eventRows });
})((window.lagbench = window.lagbench || {}));
