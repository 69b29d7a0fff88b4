/* The page before the run: in the theme of the pages that come after it. */
"use strict";
window.lagbench.theme.follow();
