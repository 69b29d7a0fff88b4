"""``python -m tests.cluster.fidelity RUN_FOLDER…``: one cell at several fidelities, in Markdown.

Run folders of one scenario, policy and seed become the columns of one table, in the order given;
numbers of different fidelity stand side by side here and nowhere else, because that is the subject.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

Measures = dict[str, Any]
NANOSECONDS = 1e9


def main(folders: Sequence[str]) -> int:
    """Print the tables; exit code 2 for folders without measures."""
    cells: dict[str, list[Measures]] = {}
    for folder in folders:
        path = Path(folder) / "measures.json"
        if not path.is_file():
            sys.stderr.write(f"{path} is missing: give folders of finished runs\n")
            return 2
        measures = json.loads(path.read_text(encoding="utf-8"))
        cell = f"{measures['scenario']}, {measures['policy']}, seed {measures['seed']}"
        cells.setdefault(cell, []).append(measures)
    sys.stdout.write("\n\n".join(table(name, runs) for name, runs in cells.items()) + "\n")
    return 0


def table(name: str, runs: Sequence[Measures]) -> str:
    """Return one cell's table: a row per measure, a column per run."""
    heads = [run["fidelity"] for run in runs]
    rows = [
        (title, [read(run) for run in runs])
        for title, read in (*_reaction_rows(runs), *ROWS.items())
    ]
    lines = [f"**{name}**", "", f"| | {' | '.join(heads)} |", f"|---|{'---:|' * len(runs)}"]
    lines += [f"| {title} | {' | '.join(values)} |" for title, values in rows]
    return "\n".join(lines)


def _reaction_rows(
    runs: Sequence[Measures],
) -> list[tuple[str, Callable[[Measures], str]]]:
    links = runs[0]["reaction"]["links"]
    return [
        (f"{link['name']} {link['title']}", lambda run, index=index: _part(run, index))
        for index, link in enumerate(links)
        if index
    ]


def _part(run: Measures, index: int) -> str:
    link = run["reaction"]["links"][index]
    part, precision = link["part_seconds"], link["precision_seconds"]
    if part is None:
        return "not seen"
    return f"{part:.2f} ± {precision:.2f} s" if precision else f"{part:.2f} s"


def _number(unit: str, *path: str) -> Callable[[Measures], str]:
    def read(run: Measures) -> str:
        value: Any = run
        for key in path:
            value = value[key]
        if value is None:
            return "unknown"
        return f"{value:,.0f}{unit}" if isinstance(value, int) else f"{value:,.1f}{unit}"

    return read


def _steps(run: Measures) -> str:
    step_at = run["load"]["first_spike_started_at"]
    return "<br>".join(
        f"{(change['at'] - step_at) / NANOSECONDS:+.1f} s: "
        f"{change['replicas_before']} → {change['replicas_after']}"
        for change in run["scaling"]["changes"]
    )


def _pod_start(run: Measures) -> str:
    links = {link["name"]: link["at"] for link in run["reaction"]["links"]}
    if links["t4"] is None or links["t7"] is None:
        return "unknown"
    return f"{(links['t7'] - links['t4']) / NANOSECONDS:.1f} s"


ROWS: dict[str, Callable[[Measures], str]] = {
    "reaction, in all": _number(" s", "reaction", "total_seconds"),
    "pod created to first partition": _pod_start,
    "replicas, from the load step on": _steps,
    "scaling events": _number("", "scaling", "change_count"),
    "reversals": _number("", "scaling", "reversals"),
    "flips": _number("", "scaling", "flips"),
    "pod-minutes": _number("", "scaling", "pod_minutes"),
    "peak lag": _number("", "lag", "peak_records"),
    "time lag p99": _number(" s", "lag", "time_lag_seconds", "p99"),
    "drain": _number(" s", "drain", "drain_seconds"),
    "rebalances": _number("", "rebalances", "count"),
    "deepest dip": _number(" %", "rebalances", "max_dip_percent"),
    "handover of a partition, p95": _number(" s", "rebalances", "partition_gaps", "p95_seconds"),
    "generator's lateness p99": _number(" ms", "validity", "generator", "lateness_p99_ms"),
    "lost / done again": lambda run: (
        f"{run['accounting']['lost']} / {run['accounting']['duplicated']}"
    ),
}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
