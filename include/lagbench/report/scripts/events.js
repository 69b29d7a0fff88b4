/* Events on the time axis: bands of spikes, rebalances and actions, phases, marks, replica changes. */
(function (lagbench) {
  "use strict";

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
        context.setLineDash(event.end === event.start ? [] : [1, 4]);
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
        phases: () => "phase: " + event.name,
        actions: () => "action: " + event.name,
      })[kind]?.() || event.name;
    const all = KINDS.flatMap((kind) =>
      events[kind].map((event) => [event.start, event.end, name(kind, event)]),
    ).sort((one, other) => one[0] - other[0]);
    return { header: ["from, seconds", "to, seconds", "event"], length: all.length, row: (index) => all[index] };
  }

  lagbench.events = { readEvents, drawBands, drawNotes, eventRows, inside };
})((window.lagbench = window.lagbench || {}));
