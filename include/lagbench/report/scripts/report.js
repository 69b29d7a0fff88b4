/* The report's own start: theme, charts from the page's data block, and the time that took. */
(function (lagbench) {
  "use strict";

  lagbench.startReport = function () {
    const began = window.performance.now();
    lagbench.theme.follow();
    lagbench.theme.button(document.getElementById("theme"));
    const data = JSON.parse(document.getElementById("run-data").textContent);
    const handle = lagbench.charts(document.getElementById("charts"), data);
    // After the next frame, all of it is on the screen.
    window.requestAnimationFrame(() =>
      window.setTimeout(() => window.performance.measure("lagbench:drawn", { start: began })),
    );
    return handle;
  };
})((window.lagbench = window.lagbench || {}));
