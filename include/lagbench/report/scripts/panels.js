/* What each panel shows: its table, its lines, and how they are told apart without colour. */
(function (lagbench) {
  "use strict";

  const SOLID = [];
  const DASHED = [6, 4];

  /** ink: a colour of theme.css. shape: line, steps or area. */
  lagbench.PANELS = [
    {
      table: "lag",
      title: "Lag",
      unit: "messages",
      digits: 0,
      lines: [
        { column: "total", label: "total", ink: "main", width: 2, dash: SOLID, shape: "line" },
        { column: "hottest", label: "hottest partition", ink: "second", width: 1.5, dash: DASHED, shape: "line" },
      ],
      bands: ["spikes", "actions"],
    },
    {
      table: "replicas",
      title: "Replicas",
      unit: "pods",
      digits: 0,
      lines: [
        { column: "desired", label: "desired", ink: "second", width: 1.5, dash: DASHED, shape: "steps" },
        { column: "ready", label: "ready", ink: "main", width: 2, dash: SOLID, shape: "steps" },
      ],
      bands: ["actions"],
      notes: ["changes"],
    },
    {
      table: "rates",
      title: "Rate",
      unit: "messages per second",
      digits: 0,
      lines: [
        { column: "offered", label: "offered", ink: "area", width: 1, dash: SOLID, shape: "area" },
        { column: "consumed", label: "consumed", ink: "main", width: 1.75, dash: SOLID, shape: "line" },
      ],
      bands: ["episodes", "actions"],
    },
    {
      table: "latency",
      title: "Time lag p99",
      unit: "seconds",
      digits: 2,
      lines: [{ column: "p99", label: "p99", ink: "main", width: 1.5, dash: SOLID, shape: "line" }],
      bands: ["actions"],
      notes: ["phases"],
    },
    {
      table: "cpu",
      title: "CPU of a consumer pod",
      unit: "cores",
      digits: 3,
      lines: [
        { column: "highest", label: "highest", ink: "second", width: 1.5, dash: DASHED, shape: "line" },
        { column: "mean", label: "mean", ink: "main", width: 1.75, dash: SOLID, shape: "line" },
      ],
      bands: ["actions"],
    },
  ];
})((window.lagbench = window.lagbench || {}));
