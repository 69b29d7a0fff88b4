/* A page that waits: it asks the server every three seconds, and loads again what has changed. */
(function () {
  "use strict";

  const SELECTOR = "[data-again]";
  const shown = document.querySelector(SELECTOR);
  if (shown === null) return;

  async function look() {
    try {
      const answer = await fetch(location.href);
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      const found = page.querySelector(SELECTOR);
      if (found === null || found.textContent !== shown.textContent) return location.reload();
    } catch {
      // The server starts again, or the network is away.
    }
    return setTimeout(look, 3000);
  }

  setTimeout(look, 3000);
})();
