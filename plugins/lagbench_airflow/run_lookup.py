"""Find the run folder of a Dag run."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import suppress

from lagbench.adapters.runs.run_folder import RunFolder, runs_root
from lagbench.errors import NotReady

NEWEST_RUNS_SEARCHED = 1000
SCENARIO_DAG = "scenario_run"
NIGHTLY_DAG = "daily_spike_rehearsal"
DAGS_WITH_REPORT = frozenset({SCENARIO_DAG, NIGHTLY_DAG})
REHEARSAL_PREFIX = "rehearsal__"
"""Prefix before a night's own Dag run id in the name of the Dag run that it triggers."""
RETRY_MARK = "__try_"
"""Mark after it, with a number, if the night was cleared and rehearses again."""

CELL_MARK = "__cell_"
"""Mark after the night's id, with a number, of each cell but the first."""


def require_folder_of(dag_run: str) -> RunFolder:
    """Return the run folder of a Dag run of scenario_run that has ended."""
    folder = folder_of_page(SCENARIO_DAG, dag_run)
    if folder is None:
        raise NotReady(
            f"no run folder names the Dag run {dag_run}: it ended before plan_cell, or ran on "
            "another machine"
        )
    return folder


def folder_of_page(dag_id: str, dag_run: str) -> RunFolder | None:
    """Return the run folder that the page of a Dag run shows; a night shows its last rehearsal."""
    return next(folders_of_page(dag_id, dag_run), None)


def folders_of_page(dag_id: str, dag_run: str) -> Iterator[RunFolder]:
    """Yield the run folders of a Dag run, newest first; a night has one for each cell and try.

    A run of another Dag has none, also if a run of scenario_run has its id.
    """
    if dag_id == SCENARIO_DAG:
        yield from _newest_folders(lambda made_by: made_by == dag_run)
    elif dag_id == NIGHTLY_DAG:
        yield from _newest_folders(lambda made_by: cell_number(dag_run, made_by) is not None)


def cell_number(night: str, dag_run: str) -> int | None:
    """Return which cell of a night a Dag run is, any try of it, from 0; None: it is of another."""
    named = rf"{REHEARSAL_PREFIX}{re.escape(night)}(?:{CELL_MARK}(\d+))?(?:{RETRY_MARK}\d+)?"
    found = re.fullmatch(named, dag_run)
    return None if found is None else int(found[1] or 0)


def _newest_folders(is_wanted: Callable[[str], bool]) -> Iterator[RunFolder]:
    """Yield the run folders of wanted Dag runs, by their ids, newest first.

    The conf is written once, when the run is planned; a report can be written again later.
    """
    root = runs_root()
    if not root.is_dir():
        return
    planned: list[tuple[int, RunFolder]] = []
    for path in root.iterdir():
        folder = RunFolder(path)
        with suppress(OSError):  # no run, or one that is being deleted
            planned.append((folder.conf.stat().st_mtime_ns, folder))
    planned.sort(key=lambda found: found[0], reverse=True)
    for _, folder in planned[:NEWEST_RUNS_SEARCHED]:
        try:
            conf = json.loads(folder.conf.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue
        if isinstance(conf, dict) and is_wanted(str(conf.get("dag_run"))):
            yield folder
