/* The course of a run: what its live lines add up to. */
"use strict";
window.lagbenchLive = {};

(function (live) {
  /** Return an empty course. A line with `run` begins it anew: the run has another follower. */
  live.course = function () {
    return {
      cell: null, began: null, streamAt: null, newest: null,
      rows: [], pods: [], phases: [], actions: [], standing: {}, verdict: null, isLast: false,
    };
  };

  const ms = (nanoseconds) => Math.round(nanoseconds / 1e6);

  /** Add a line to the course. */
  live.take = function (course, line) {
    if (line.run) Object.assign(course, live.course(), { cell: line.run, began: ms(line.at) });
    const at = ms(line.at);
    if (course.streamAt === null && typeof line.second === "number") {
      course.streamAt = at - Math.round(line.second * 1000);
    }
    course.newest = line;
    course.rows.push(row(line, at));
    for (const [pod, partitions] of Object.entries(line.assigned || {})) assign(course.pods, pod, partitions, at);
    for (const phase of line.phases || []) addPhase(course.phases, phase);
    for (const action of line.actions || []) addAction(course.actions, action);
    Object.assign(course.standing, line.standing || {});
    course.verdict = line.verdict || course.verdict;
    course.isLast = Boolean(line.is_last);
  };

  function row(line, at) {
    const lags = line.lag_by_partition || [];
    const isKnown = lags.length > 0 && lags.every((lag) => lag !== null);
    const value = (name) => (line[name] === undefined ? null : line[name]);
    const [desired, ready] = line.replicas || [null, null];
    return {
      at, desired, ready, lag: value("lag"), hottest: isKnown ? Math.max(...lags) : null,
      offered: value("planned_per_second"), produced: value("produced_per_second"),
      consumed: value("processed_per_second"), timeLag: value("time_lag_seconds"),
    };
  }

  /** Note what a pod holds: [] is idle, null has left. One that comes back begins a row of its own. */
  function assign(pods, pod, partitions, at) {
    let known = pods.findLast((one) => one.pod === pod && one.gone === null);
    if (partitions === null) {
      if (known) known.gone = at;
      return;
    }
    if (!known) pods.push((known = { pod, at: [], counts: [], gone: null, now: [] }));
    known.at.push(at);
    known.counts.push(partitions.length);
    known.now = partitions;
  }

  function addPhase(phases, phase) {
    const at = ms(phase.at);
    if (phase.state === "started") {
      phases.push({ name: phase.name, start: at, end: null, failed: false, progress: "" });
      return;
    }
    const open = phases.findLast((one) => one.name === phase.name && one.end === null);
    if (open && phase.state === "progress") open.progress = phase.detail;
    else if (open) Object.assign(open, { end: at, failed: phase.state === "failed" });
  }

  function addAction(actions, action) {
    const at = ms(action.at);
    if (action.state === "started") {
      const name = action.action.replaceAll("_", " ");
      actions.push({ number: action.number, name, start: at, end: null, targets: action.targets || [], error: "" });
      return;
    }
    const open = actions.findLast((one) => one.number === action.number && one.end === null);
    if (open) Object.assign(open, { end: at, error: action.error || "" });
  }

  /** Return the instant from which the page counts, and its name. */
  live.origin = function (course) {
    if (course.streamAt === null) return { at: course.began, name: "the first line" };
    const first = course.cell && course.cell.spikes[0];
    if (!first) return { at: course.streamAt, name: "the stream's start" };
    return { at: course.streamAt + Math.round(first.start_seconds * 1000), name: "the spike" };
  };

  /** Return the seconds until the planned window ends, and until the replicas are back, as predicted. */
  live.remaining = function (course) {
    const second = course.newest && course.newest.second;
    if (!course.cell || typeof second !== "number") return null;
    const left = (end) => (typeof end === "number" ? Math.max(0, Math.round(end - second)) : null);
    return { load: left(course.cell.planned_seconds), settled: left(course.cell.settled_seconds) };
  };
})(window.lagbenchLive);
