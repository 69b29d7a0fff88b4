/* The figures, tables and lists of the live page. Every name is set as text. */
"use strict";

(function (live) {
  const byId = (id) => document.getElementById(id);
  const WORDS = { holds: "holds so far", broken: "broken", open: "open", at_end: "known at the end" };

  /** Return an element with a class and a text. */
  function element(tag, text, className) {
    const made = document.createElement(tag);
    if (text !== undefined) made.textContent = text;
    if (className) made.className = className;
    return made;
  }

  const number = (value, unit) =>
    typeof value === "number" ? `${value.toLocaleString("en", { maximumFractionDigits: 1 })}${unit || ""}` : "–";

  /** Draw what the course has now. */
  live.draw = function (course) {
    if (!course.newest) return;
    const cell = course.cell;
    if (cell) {
      const group = cell.group ? `, ${cell.group} group of two` : "";
      byId("cell").textContent = `${cell.scenario} with ${cell.policy}${group}`;
      byId("about").textContent = `${cell.run_id}, replicas ${cell.floor_replicas} to ${cell.ceiling_replicas}`;
    }
    byId("figures").replaceChildren(...figures(course).map(figure));
    byId("slos").replaceChildren(...((cell && cell.slos) || []).map((slo) => sloRow(slo, course.standing[slo.name])));
    byId("pods").replaceChildren(...podRows(course));
    byId("happened").replaceChildren(...happened(course));
    const verdict = byId("verdict");
    verdict.hidden = course.verdict === null;
    const ofBoth = cell && cell.group === "first" ? ", both groups" : "";  // the run has one verdict
    verdict.textContent = course.verdict ? `${course.verdict.replaceAll("_", " ")}${ofBoth}` : "";
    verdict.className = `badge ${course.verdict || ""}`;
  };

  function figures(course) {
    const newest = course.rows[course.rows.length - 1];
    const left = live.remaining(course);
    const phase = course.phases.findLast((one) => one.end === null) || course.phases[course.phases.length - 1];
    const read = course.rows.findLast((row) => row.desired !== null);
    const floor = course.cell && course.cell.floor_replicas;
    const isAtFloor = Boolean(read) && read.ready === floor && read.desired === floor;
    return [
      ["state", course.newest.state ? course.newest.state + (phase && phase.end === null && phase.progress ? `: ${phase.progress}` : "") : "–"],
      ["lag", number(newest.lag)],
      ["time lag of the oldest message", number(newest.timeLag, " s")],
      ["replicas ready of desired", share(newest.ready, newest.desired)],
      ["produced of planned", share(newest.produced, newest.offered, "/s")],
      ["processed", number(newest.consumed, "/s")],
      ["end of the planned load", due(left && left.load, "it has ended")],
      ["replicas at rest, as predicted", due(left && left.settled, isAtFloor ? "they are" : "due")],
    ];
  }

  /** Return how much there is of how much, or that nothing is known. */
  function share(part, whole, unit) {
    const known = [part, whole].some((value) => typeof value === "number");
    return known ? `${number(part)} of ${number(whole, unit)}` : number(null);
  }

  /** Return when something comes: `over` at and after that time. */
  function due(seconds, over) {
    if (typeof seconds !== "number") return "–";
    return seconds > 0 ? `in ${number(seconds, " s")}` : over;
  }

  function figure([name, value]) {
    const tile = element("div", undefined, "tile");
    tile.append(element("dt", name), element("dd", value));
    return tile;
  }

  function sloRow(slo, standing) {
    const [value, state] = standing || [null, "open"];
    const row = element("tr");
    const shown = value === null ? "–" : `${number(value)} ${slo.unit}`.trim();
    row.append(element("td", slo.title), element("td", slo.limit), element("td", shown, "n"),
      element("td", WORDS[state] || state, `status ${state}`));
    return row;
  }

  function podRows(course) {
    return course.pods.filter((pod) => pod.gone === null).map((pod) => {
      const row = element("tr");
      row.append(element("td", pod.pod), element("td", pod.now.join(", ") || "none"));
      return row;
    });
  }

  function happened(course) {
    const origin = live.origin(course);
    byId("since").textContent = `Seconds since ${origin.name}.`;
    const second = (at) => `${((at - origin.at) / 1000).toFixed(1)} s`;
    const phases = course.phases.map((one) => [one.start, `task ${one.name.replaceAll("_", " ")}${one.failed ? ": failed" : ""}`]);
    const actions = course.actions.map((one) => [one.start,
      `action ${one.name.replaceAll("_", " ")}${one.targets.length ? ` on ${one.targets.join(", ")}` : ""}${one.error ? `: ${one.error}` : ""}`]);
    return [...phases, ...actions].sort((a, b) => b[0] - a[0]).map(([at, text]) => element("li", `${second(at)}: ${text}`));
  }

  /** Say in words what the page does. */
  live.say = function (text) {
    if (byId("state").textContent === text) return;
    byId("state").textContent = text;
    byId("state").classList.toggle("live", text === "live");
  };
})(window.lagbenchLive);
