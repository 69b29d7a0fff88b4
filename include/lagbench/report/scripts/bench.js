/* The pages of many runs: one that waits loads again what has changed, one in a frame has no menu. */
(function (lagbench) {
  "use strict";

  lagbench.theme.follow();
  lagbench.theme.button(document.getElementById("theme"));

  const WAITS = "[data-again]";
  const PAUSE_MS = 3000;
  const shown = document.querySelector(WAITS);

  async function look() {
    try {
      const answer = await fetch(location.href);
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      const found = page.querySelector(WAITS);
      if (found === null || found.textContent !== shown.textContent) return location.reload();
    } catch {
      // The server starts again, or the network is away.
    }
    return setTimeout(look, PAUSE_MS);
  }

  if (shown !== null) setTimeout(look, PAUSE_MS);

  try {
    const isInner = window.parent !== window && window.parent.document.querySelector("nav.bench");
    if (isInner) document.querySelector("nav.bench").remove();
  } catch {
    // The frame is of another origin.
  }
})(window.lagbench);
