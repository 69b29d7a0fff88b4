"""The regression gate of the standing rehearsal."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any

from lagbench.catalog.conf import refuse, refuse_unknown
from lagbench.errors import WrongInput
from lagbench.report.page import write_report
from lagbench.results.gate import judge_night, told_verdict
from lagbench_airflow.links import report_path, tab_path
from lagbench_airflow.params import MORE_CELLS, rehearsal_params
from lagbench_airflow.run_lookup import (
    NIGHTLY_DAG,
    cell_number,
    folders_of_page,
    require_folder_of,
)

MOST_CELLS = 20


def cells_of_night(params: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the conf of ``scenario_run`` for each cell of a night, in their order.

    :raises WrongInput: a line is not a cell, or the night has it already.
    """
    refuse_unknown(params, rehearsal_params())
    cells = [(str(params["scenario"]), str(params.get("policy") or ""))]
    for line in str(params.get(MORE_CELLS) or "").splitlines():
        words = line.split()
        cell = (words[0], "".join(words[1:])) if words else None
        if len(words) > 2 or cell in cells or len(cells) == MOST_CELLS:
            allowed = f"SCENARIO or SCENARIO POLICY, each once, {MOST_CELLS} cells at most"
            refuse(MORE_CELLS, line, allowed)
        cells += [] if cell is None else [cell]
    given = {name: params.get(name) for name in ("seed", "overrides")}
    shared = {name: value for name, value in given.items() if value not in (None, "")}
    return [
        {"scenario": scenario, "policy": policy, **shared, "keep_bench": False, "ask": False}
        for scenario, policy in cells
    ]


def cell_name(conf: Mapping[str, Any]) -> str:
    """Return how a page and a mail name a cell of a night."""
    return f"{conf.get('scenario')}, {conf.get('policy') or 'its own policy'}"


def verdicts_of_night(night: str, conf: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield address and verdict of each run of a night, oldest first, then of its other cells.

    :param conf: of the night's Dag run.
    """
    begun = set[int | None]()
    for folder in reversed([*folders_of_page(NIGHTLY_DAG, night)]):
        begun.add(cell_number(night, str(folder.read_json(folder.conf)["dag_run"])))
        yield report_path(folder.run_id), f"{folder.run_id}: {told_verdict(folder)}"
    tab = tab_path(NIGHTLY_DAG, night)
    try:
        defaults = {name: one.value for name, one in rehearsal_params().items()}
        for number, cell in enumerate(cells_of_night({**defaults, **conf})):
            if number not in begun:
                yield tab, f"{cell_name(cell)}: no run folder: it has not come to its load"
    except WrongInput as wrong:  # the night has no cells
        yield tab, str(wrong)


def compare_with_last_pass(dag_run: str) -> dict[str, Any]:
    """Compare the run of ``dag_run`` of scenario_run with its baseline and the last night.

    Write comparison.json, and the report with it.
    """
    folder = require_folder_of(dag_run)
    record = judge_night(folder, now=time.time_ns())
    write_report(folder)
    return {
        "status": record.status,
        "run_id": record.run_id,
        "baseline": None if record.baseline is None else record.baseline.reference_run_id,
        "last_night": None if record.last_night is None else record.last_night.reference_run_id,
        "reasons": list(record.reasons),
        "notes": list(record.notes),
    }
