/* The assignment: a row for each pod, coloured by the partitions that it holds. */
(function (lagbench) {
  "use strict";

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
    lagbench.events.inside(plot, (context, box) => {
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
    const made = lagbench.frame.frame(panel.title, panel.unit, lagbench.panel.HELP, panel.rows, (file) =>
      lagbench.download.png(file, [panel]),
    );
    const reading = lagbench.frame.make("span", "value");
    made.legend.append(lagbench.frame.make("span", "muted", "0 is an idle pod"), reading);
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
      panel.plot = new window.uPlot(lagbench.panel.options(board, given), data(), made.plot);
    };
    return panel;
  }

  lagbench.assignmentPanel = assignmentPanel;
})((window.lagbench = window.lagbench || {}));
