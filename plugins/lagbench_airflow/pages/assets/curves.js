/* The report's charts, fed with live lines. The page works without them. */
"use strict";

(function (live) {
  /** Return the function that brings the charts up to the course. */
  live.curves = function (place, named) {
    const has = Boolean(window.lagbench && window.lagbench.charts);
    if (!has) return () => undefined;
    window.lagbench.theme.follow();
    window.lagbench.PANELS = window.lagbench.PANELS.filter((panel) => panel.table !== "cpu").map(ofLive);
    let charts = null, origin = null, drawn = 0, cell = null;

    return function (course) {
      const begins = live.origin(course);
      if (charts === null || begins.at !== origin || course.cell !== cell) {
        if (charts !== null) charts.destroy();
        charts = window.lagbench.charts(place, { origin: { name: begins.name }, isLive: true, ...facts(course.cell) });
        if (course.streamAt !== null) charts.append(predicted(course, begins.at));
        origin = begins.at;
        cell = course.cell;
        drawn = 0;
      }
      const until = course.rows.findLastIndex(hasReading) + 1;
      if (drawn < until) charts.append(tables(course.rows.slice(drawn, until), origin));
      drawn = Math.max(drawn, until);
      charts.setPods(pods(course, origin));
      charts.setEvents(events(course, origin, named));
    };
  };

  /** Return a panel of the report as the live page has it: what waits is known, not yet what was done. */
  function ofLive(panel) {
    if (panel.table !== "latency") return panel;
    const line = { ...panel.lines[0], column: "oldest", label: "oldest message that waits" };
    return { ...panel, title: "Time lag", digits: 1, lines: [line] };
  }

  /** Return the limits and the rate of one pod, as the report's data block has them. */
  const facts = (cell) => (cell ? { limits: cell.slos, podRate: cell.pod_rate_per_second } : {});

  /** Return the predicted course as a table, from the stream's start on. */
  function predicted(course, origin) {
    const found = course.cell && course.cell.predicted;
    if (!found) return {};
    const ms = found.lag.map((_, step) => course.streamAt + step * found.every_seconds * 1000 - origin);
    return { predicted: { ms, columns: { lag: found.lag, replicas: found.replicas } } };
  }

  /** Empty rows are a gap between others; behind the fence they are the end. */
  const hasReading = (row) => row.lag !== null || row.desired !== null || row.consumed !== null;

  function tables(rows, origin) {
    const ms = rows.map((row) => row.at - origin);
    const columns = (...names) => Object.fromEntries(names.map(([name, of]) => [name, rows.map((row) => row[of])]));
    return {
      lag: { ms, columns: columns(["total", "lag"], ["hottest", "hottest"]) },
      replicas: { ms, columns: columns(["desired", "desired"], ["ready", "ready"]) },
      rates: { ms, columns: columns(["offered", "produced"], ["consumed", "consumed"]) },
      latency: { ms, columns: columns(["oldest", "timeLag"]) },
    };
  }

  function pods(course, origin) {
    return course.pods.map((pod) => {
      const at = pod.at.map((one) => one - origin);
      const deltas = at.map((one, place) => (place === 0 ? one : one - at[place - 1]));
      return { pod: pod.pod, ms: deltas, partitions: pod.counts, gone: pod.gone === null ? null : pod.gone - origin };
    });
  }

  /** Return the phases that are events of the run, by the names that the report has. */
  function phases(course, origin, named) {
    return course.phases.flatMap((phase) => {
      const [state, name] = named[phase.name] || [];
      const at = state === "started" ? phase.start : phase.end;
      return name && at !== null && !phase.failed ? [{ name, start: at - origin, end: at - origin }] : [];
    });
  }

  function events(course, origin, named) {
    const shifted = ({ name, start, end }) => ({ name: name.replaceAll("_", " "), start: start - origin, end: end === null ? null : end - origin });
    const spikes = course.streamAt === null || !course.cell ? [] : course.cell.spikes.map((spike) => ({
      name: "spike",
      start: course.streamAt + spike.start_seconds * 1000 - origin,
      end: course.streamAt + spike.end_seconds * 1000 - origin,
    }));
    return {
      phases: phases(course, origin, named), actions: course.actions.map(shifted), spikes,
      changes: changes(course.rows, origin),
    };
  }

  function changes(rows, origin) {
    const found = [];
    let before = null;
    for (const row of rows) {
      if (row.desired === null) continue;
      if (before !== null && row.desired !== before) found.push({ at: row.at - origin, before, after: row.desired });
      before = row.desired;
    }
    return found;
  }
})(window.lagbenchLive);
