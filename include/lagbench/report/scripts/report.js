/* The report's own start: theme, charts from the page's data block, and the time that took. */
(function (lagbench) {
  "use strict";

  /** A table that is wider than the window scrolls; the keyboard must reach it, and only then. */
  function reachWideTables() {
    document.querySelectorAll(".wide, pre").forEach((box) => {
      if (box.scrollWidth > box.clientWidth) box.tabIndex = 0;
      else box.removeAttribute("tabindex");
    });
  }

  lagbench.startReport = function () {
    const began = window.performance.now();
    lagbench.theme.follow();
    lagbench.theme.button(document.getElementById("theme"));
    const data = JSON.parse(document.getElementById("run-data").textContent);
    const handle = lagbench.charts(document.getElementById("charts"), data);
    handle.hideEmpty();
    reachWideTables();
    window.addEventListener("resize", reachWideTables);
    document.addEventListener("toggle", reachWideTables, true);
    // After the next frame, all of it is on the screen.
    window.requestAnimationFrame(() =>
      window.setTimeout(() => window.performance.measure("lagbench:drawn", { start: began })),
    );
    lagbench.report = handle;
    return handle;
  };
})((window.lagbench = window.lagbench || {}));
