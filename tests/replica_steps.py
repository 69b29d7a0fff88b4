"""Draw the picture of newer_kubernetes from kept runs: ``python -m tests.replica_steps FILE``.

A line for each run, of its replicas by second of the stream: what climbs by older rules beside it.
"""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path

from lagbench.adapters.runs.experiment_folder import ExperimentFolder
from lagbench.core.compare import figure_parts as svg
from lagbench.core.compare.experiment_figure import drawn
from lagbench.core.compare.figure_parts import Drawing
from lagbench.core.measures.measures import Measures
from lagbench.project import PROJECT_ROOT

NEW = "newer_kubernetes", "newer_kubernetes/kubernetes"
SETS: dict[str, dict[str, tuple[str, tuple[str, ...]]]] = {
    "Replicas by second; the policy is swapped at 30": {
        "1.37: at once": ("swapped", NEW),
        "until 1.36: at the next sync": ("swapped", ("policy_swap",)),
    },
    "Replicas by second; the load needs 12": {
        "a tolerance of 0.05": ("eleven", NEW),
        "without one": ("eleven", ("past_p", "past_p/kubernetes")),
    },
}
"""Of each picture the lines: cell, and the folders of its runs."""
SECONDS, REPLICAS, HEIGHT = [10.0 * ten for ten in range(7)], [0.0, 4.0, 8.0, 12.0], 130


def climbs(cell: str, folders: tuple[str, ...]) -> list[list[tuple[float, int]]]:
    """Return seconds and replicas of each kept run of a cell."""
    found = []
    for folder in folders:
        for run in ExperimentFolder(PROJECT_ROOT / "docs/findings" / folder).runs():
            if (run.record or {}).get("cell") == cell:
                measures = Measures.model_validate(run.files["measures"])
                began, changes = measures.load.stream_started_at or 0, measures.scaling.changes
                rows = [((one.at - began) / 1e9, one.replicas_after) for one in changes]
                found.append([(0.0, changes[0].replicas_before), *rows])
    return found


def block(title: str, lines: dict[str, tuple[str, tuple[str, ...]]], top: float) -> Drawing:
    """Return one picture: a line for each run."""
    begin, end = top + svg.HEAD, top + svg.HEAD + HEIGHT
    x_of, y_of = svg.scale(SECONDS), svg.scale(REPLICAS, end, begin)
    parts = [svg.heading(top, title), *svg.axis(SECONDS, x_of, begin, end, "{:g}".format)]
    parts += [svg.text(svg.LEFT - 6, y_of(n) + 4, f"{n:g}", anchor="end") for n in REPLICAS]
    keys = []
    for hue, (name, (cell, folders)) in zip(svg.HUES, lines.items(), strict=False):
        for climb in climbs(cell, folders):
            shown = [row for row in climb if row[0] <= SECONDS[-1]]
            path = f"M{x_of(0.0):.1f} {y_of(shown[0][1]):.1f}"
            path += "".join(f"H{x_of(at):.1f}V{y_of(count):.1f}" for at, count in shown[1:])
            path += f"H{x_of(SECONDS[-1]):.1f}"
            parts.append(f'<path d="{path}" fill="none" stroke="{hue}" stroke-width="1.5"/>')
        keys.append((partial(svg.circle, svg.Look(hue, hue, name)), name))
    told, height = svg.legend(keys, end + svg.AXIS - 4)
    return [*parts, *told], svg.HEAD + HEIGHT + svg.AXIS + height + 8


def main() -> None:
    """Write the picture."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    blocks = [partial(block, title, lines) for title, lines in SETS.items()]
    parser.parse_args().file.write_text(drawn("Replicas", [], first=blocks), encoding="utf-8")


if __name__ == "__main__":
    main()
