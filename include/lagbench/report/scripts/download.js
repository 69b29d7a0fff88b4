/* Save what a panel shows: its rows as CSV, its picture as PNG, without the network. */
(function (lagbench) {
  "use strict";

  const HEAD = 40; // pixels above each panel, for its title and legend

  function save(blob, name) {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(blob);
    link.download = name;
    document.body.append(link);
    link.click();
    link.remove();
    window.setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  }

  function csv(name, rows) {
    save(new Blob([lagbench.csv(rows)], { type: "text/csv;charset=utf-8" }), name + ".csv");
  }

  function drawLegend(context, lines, left, top) {
    lines.forEach((line) => {
      context.strokeStyle = context.fillStyle = lagbench.theme.ink(line.ink);
      context.lineWidth = line.width;
      context.setLineDash(line.dash);
      context.beginPath();
      context.moveTo(left, top - 4);
      context.lineTo(left + 26, top - 4);
      context.stroke();
      context.fillStyle = lagbench.theme.ink("ink");
      context.fillText(line.label, left + 32, top);
      left += 32 + context.measureText(line.label).width + 18;
    });
  }

  /** Save panels below each other as one picture; each has `plot`, `title`, `unit`, `lines`. */
  function png(name, panels) {
    const ratio = window.uPlot.pxRatio;
    const canvas = document.createElement("canvas");
    canvas.width = Math.max(...panels.map((panel) => panel.plot.ctx.canvas.width));
    canvas.height = panels.reduce((sum, { plot }) => sum + plot.ctx.canvas.height + HEAD * ratio, 0);
    const context = canvas.getContext("2d");
    context.fillStyle = lagbench.theme.ink("paper");
    context.fillRect(0, 0, canvas.width, canvas.height);
    let top = 0;
    panels.forEach(({ plot, title, unit, lines }) => {
      context.save();
      context.translate(0, top);
      context.scale(ratio, ratio);
      context.fillStyle = lagbench.theme.ink("ink");
      context.font = "bold 13px system-ui, sans-serif";
      context.fillText(`${title} (${unit})`, 12, 16);
      context.font = "12px system-ui, sans-serif";
      drawLegend(context, lines, 12, 33);
      context.restore();
      context.drawImage(plot.ctx.canvas, 0, top + HEAD * ratio);
      top += plot.ctx.canvas.height + HEAD * ratio;
    });
    canvas.toBlob((blob) => save(blob, name + ".png"), "image/png");
  }

  lagbench.download = { csv, png };
})((window.lagbench = window.lagbench || {}));
