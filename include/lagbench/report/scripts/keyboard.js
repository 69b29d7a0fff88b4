/* The keyboard: arrows move the cursor of all panels and say what it reads, plus and minus zoom. */
(function (lagbench) {
  "use strict";

  const FAR = 10; // samples, with Shift

  /** Make the panel's plot obey keys. `say` speaks to a screen reader. */
  function keyboard(board, panel, say) {
    let index = null;

    function point() {
      const left = panel.plot.valToPos(panel.seconds()[index], "x");
      panel.plot.setCursor({ left, top: 10 }, true, true);
    }

    /** Zoom around the cursor; uPlot sets its scales after this task, and the cursor follows. */
    function zoom(factor) {
      board.zoomAt(index === null ? null : panel.seconds()[index], factor);
      if (index !== null) window.setTimeout(point);
    }

    function moveTo(wanted) {
      const seconds = panel.seconds();
      if (seconds.length === 0) return;
      const { min, max } = board.shown();
      const first = Math.max(seconds.findIndex((second) => second >= min), 0);
      let last = seconds.length - 1;
      while (last > first && seconds[last] > max) last--;
      index = Math.max(first, Math.min(wanted(first, last), last));
      point();
      say(`${seconds[index].toFixed(1)} seconds: ${panel.read(index)}`);
    }

    const from = (step) => (first) => (index === null ? first : index + step);
    const keys = {
      ArrowRight: (event) => moveTo(from(event.shiftKey ? FAR : 1)),
      ArrowLeft: (event) => moveTo(from(event.shiftKey ? -FAR : -1)),
      Home: () => moveTo((first) => first),
      End: () => moveTo((_, last) => last),
      "+": () => zoom(0.5),
      "=": () => zoom(0.5), // the same key without Shift
      "-": () => zoom(2),
      Escape: () => board.zoom(null),
    };
    panel.target.addEventListener("keydown", (event) => {
      const act = keys[event.key];
      if (!act || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      act(event);
    });
    panel.target.addEventListener("blur", () => {
      index = null;
      panel.plot.setCursor({ left: -10, top: -10 }, true, true);
    });
  }

  lagbench.keyboard = keyboard;
})((window.lagbench = window.lagbench || {}));
