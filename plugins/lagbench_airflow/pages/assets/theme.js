/* A page without a run, in the theme of the pages of runs. */
"use strict";
window.lagbench.theme.follow();
