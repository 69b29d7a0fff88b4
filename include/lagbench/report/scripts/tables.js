/* A row of a wide table is a block on a phone: each cell gets the name of its column (page.css). */
(function () {
  "use strict";

  document.querySelectorAll("table.stacked").forEach((table) => {
    const names = [...table.querySelectorAll("th")].map((cell) => cell.textContent);
    table.querySelectorAll("td").forEach((cell) => (cell.dataset.label = names[cell.cellIndex]));
  });
})();
