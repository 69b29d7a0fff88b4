/* A panel of lines over the shared time axis. */
(function (lagbench) {
  "use strict";

  const HEIGHT = 170;
  const GUTTER = 64; // the same for all panels, so that their time axes stand below each other
  const FONT = "11px system-ui, sans-serif";
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
            lagbench.events.drawBands(plot, bands, board.events);
            if (before) before(plot);
          },
        ],
        draw: [(plot) => lagbench.events.drawNotes(plot, bands, notes, board.events)],
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

  /** Make the panel of `spec` (see panels.js) with the samples of `table`. */
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
    const made = lagbench.frame.frame(spec.title, spec.unit, HELP, panel.rows, (file) =>
      lagbench.download.png(file, [panel]),
    );
    const entries = spec.lines.map((line, at) => {
      const entry = lagbench.frame.entry(line, (shown) => panel.plot.setSeries(at + 1, { show: shown }));
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
      const given = { height: HEIGHT, y, series: spec.lines.map(series), bands: spec.bands, notes: spec.notes || [] };
      panel.plot = new window.uPlot(options(board, given), [table.seconds, ...table.values], made.plot);
    };
    return panel;
  }

  lagbench.panel = { options, linesPanel, HELP };
})((window.lagbench = window.lagbench || {}));
