/* The stream of live lines: one at a time, closed while the page is hidden; else by polling. */
"use strict";

(function (live) {
  const POLL_MS = 2000, SILENCE_MS = 40000, READ_MS = 4000;
  const settings = JSON.parse(document.getElementById("live-settings").textContent);
  const course = live.course();
  const drawCurves = live.curves(document.getElementById("charts"), settings.events_of_phases);
  let generation = 0;  // an answer to an earlier one is not taken: its lines are asked for again
  let source = null, timer = null, offset = 0, isPolling = false, isOver = false, isDue = false, heardAt = Date.now();

  function draw() {
    isDue = false;
    live.draw(course);
    if (course.newest) drawCurves(course);
  }

  /** Take one answer of the server; the next one begins at its end. */
  function take(answer) {
    heardAt = Date.now();
    offset = answer.next;
    for (const line of answer.lines) live.take(course, line);
    if (!isDue) {
      isDue = true;
      requestAnimationFrame(draw);
    }
    if (answer.report) return showReport();
    if (answer.over) return end(answer.failure ? `the run has failed: ${answer.failure}` : "the run is no longer followed, and it has no report");
    sayConnected();
  }

  function sayConnected() {
    live.say(course.newest ? "live" : "waiting for the first line: the run is starting");
  }

  /** Note that the server answers, with lines or without. */
  function hear() {
    heardAt = Date.now();
    sayConnected();
  }

  function showReport() {
    end("the report is there and opens now");
    setTimeout(() => window.location.replace(settings.report), course.newest ? READ_MS : 0);
  }

  function end(text) {
    isOver = true;
    close();
    live.say(text);
  }

  function close() {
    generation += 1;
    clearTimeout(timer);
    if (source !== null) source.close();
    source = null;
  }

  function open() {
    if (isOver || document.hidden) return;
    close();
    heardAt = Date.now();
    if (isPolling || !window.EventSource) return void poll();
    source = new EventSource(`${settings.events}?from=${offset}`);
    source.addEventListener("lines", (event) => take(JSON.parse(event.data)));
    source.addEventListener("over", (event) => take(JSON.parse(event.data)));
    for (const sign of ["open", "still"]) source.addEventListener(sign, hear);
    source.onerror = () => {
      live.say("connecting again");
      if (source !== null && source.readyState === EventSource.CLOSED) startPolling();
    };
    timer = setInterval(() => {
      if (Date.now() - heardAt > SILENCE_MS) startPolling();  // a proxy may hold a stream back
    }, POLL_MS);
  }

  function startPolling() {
    isPolling = true;
    open();
  }

  async function poll() {
    const mine = generation;
    try {
      const answer = await fetch(`${settings.lines}?from=${offset}`, { cache: "no-store" });
      const content = answer.ok ? await answer.json() : null;
      if (mine !== generation) return;
      if (answer.status === 401 || answer.status === 403) return end("you are no longer logged in; log in and load this page again");
      if (answer.ok) take(content);
      else live.say(`the server answers ${answer.status}; trying again`);
    } catch {
      if (mine === generation) live.say("the server does not answer; trying again");
    }
    if (mine === generation) timer = setTimeout(poll, POLL_MS);
  }

  document.addEventListener("visibilitychange", () => (document.hidden ? close() : open()));
  window.addEventListener("pagehide", close);
  window.addEventListener("pageshow", (event) => event.persisted && open());
  open();
})(window.lagbenchLive);
