/* Light or dark: ?theme=, the reader's choice, Airflow's theme around this frame, or the system. */
(function (lagbench) {
  "use strict";

  const CHOICE = "lagbench-theme";
  const NAMES = ["auto", "light", "dark"];
  const system = window.matchMedia("(prefers-color-scheme: dark)");
  const listeners = new Set();
  let printing = false;
  let chosen = null; // here only: where nothing can be stored, the choice lasts as long as the page
  let inks = null;

  const known = (name) => (name === "light" || name === "dark" ? name : null);

  /** Read a key of the local storage; null where the browser denies it (file:, sandbox). */
  function stored(key) {
    try {
      return window.localStorage.getItem(key);
    } catch {
      return null;
    }
  }

  /** Return the theme of Airflow's page when this one is a tab of it; it keeps it in "theme". */
  function airflows() {
    if (window.parent === window) return null;
    try {
      const isDark = window.parent.document.documentElement.classList.contains("dark");
      return known(stored("theme")) || (isDark ? "dark" : null);
    } catch {
      return null; // of another origin
    }
  }

  const choice = () => known(chosen || stored(CHOICE));

  function current() {
    if (printing) return "light";
    const asked = chosen ? null : known(new URLSearchParams(window.location.search).get("theme"));
    return asked || choice() || airflows() || (system.matches ? "dark" : "light");
  }

  function apply() {
    inks = null;
    document.documentElement.dataset.theme = current();
    listeners.forEach((listener) => listener());
  }

  /** Return a colour of styles/theme.css by its name, e.g. ink("main") is --main. */
  function ink(name) {
    if (inks === null) inks = new Map();
    if (!inks.has(name)) {
      const style = window.getComputedStyle(document.documentElement);
      inks.set(name, style.getPropertyValue("--" + name).trim());
    }
    return inks.get(name);
  }

  function follow() {
    system.addEventListener("change", apply);
    window.addEventListener("storage", apply);
    window.addEventListener("beforeprint", () => ((printing = true), apply()));
    window.addEventListener("afterprint", () => ((printing = false), apply()));
    apply();
  }

  /** Make `element` the switch: auto, light, dark and round again. */
  function button(element) {
    const show = () => (element.textContent = "Theme: " + (choice() || "auto"));
    element.addEventListener("click", () => {
      chosen = NAMES[(NAMES.indexOf(choice() || "auto") + 1) % NAMES.length];
      try {
        window.localStorage.setItem(CHOICE, chosen);
      } catch {
        // kept in `chosen`
      }
      show();
      apply();
    });
    show();
  }

  /** Call `listener` after each change; return the function that ends that. */
  function listen(listener) {
    listeners.add(listener);
    return () => listeners.delete(listener);
  }

  lagbench.theme = { follow, button, ink, listen };
})((window.lagbench = window.lagbench || {}));
