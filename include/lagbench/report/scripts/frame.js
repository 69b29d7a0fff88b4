/* The frame of a panel: heading, legend, buttons, the focusable plot, and the table behind it. */
(function (lagbench) {
  "use strict";

  /** Make an element; text is set as text, so no name can bring markup. */
  function make(tag, className, text) {
    const element = document.createElement(tag);
    if (className) element.className = className;
    if (text !== undefined) element.textContent = text;
    return element;
  }

  function button(text, label, onClick) {
    const element = make("button", "small-button", text);
    element.type = "button";
    element.setAttribute("aria-label", label);
    element.addEventListener("click", onClick);
    return element;
  }

  /** A sample of a line as it is drawn: dash and width tell lines apart without colour. */
  function sample(line) {
    const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    svg.setAttribute("class", "sample ink-" + line.ink);
    svg.setAttribute("viewBox", "0 0 26 10");
    svg.setAttribute("aria-hidden", "true");
    const shape = document.createElementNS(svg.namespaceURI, line.shape === "area" ? "rect" : "line");
    const place = line.shape === "area" ? { width: 26, height: 10 } : { x1: 0, x2: 26, y1: 5, y2: 5 };
    Object.entries(place).forEach(([name, value]) => shape.setAttribute(name, value));
    shape.setAttribute("stroke-width", line.width);
    shape.setAttribute("stroke-dasharray", line.dash.join(" "));
    svg.append(shape);
    return svg;
  }

  /** A legend's entry: a button that shows or hides the line, with its value at the cursor. */
  function entry(line, onToggle) {
    const element = make("button", "entry");
    element.type = "button";
    element.setAttribute("aria-pressed", "true");
    const value = make("span", "value");
    element.append(sample(line), make("span", "", line.label), value);
    element.addEventListener("click", () => {
      const shown = element.getAttribute("aria-pressed") !== "true";
      element.setAttribute("aria-pressed", String(shown));
      onToggle(shown);
    });
    return { element, value };
  }

  /** Return the DOM of a panel with an empty legend. `rows`: a function that gives its table. */
  function frame(title, unit, help, rows, save) {
    const figure = make("figure", "panel");
    const head = make("figcaption", "panel-head");
    const heading = make("h3", "", title);
    heading.append(make("small", "muted", " " + unit));
    const legend = make("div", "legend");
    const buttons = make("div", "buttons");
    const file = title.toLowerCase().replace(/[^a-z0-9]+/g, "-");
    buttons.append(
      button("CSV", "Download " + title + " as CSV", () => lagbench.download.csv(file, rows())),
      button("PNG", "Download " + title + " as PNG", () => save(file)),
    );
    head.append(heading, legend, buttons);
    const plot = make("div", "plot");
    plot.tabIndex = 0;
    plot.setAttribute("role", "application");
    plot.setAttribute("aria-roledescription", "chart");
    plot.setAttribute("aria-label", title + " in " + unit + ". " + help);
    figure.append(head, plot, lagbench.pagedTable(title + " as a table", rows));
    return { figure, legend, plot };
  }

  lagbench.frame = { make, button, entry, frame };
})((window.lagbench = window.lagbench || {}));
