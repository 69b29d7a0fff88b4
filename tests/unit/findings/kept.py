"""The kept runs behind the pages of findings, and how the pages write them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lagbench.adapters.runs.experiment_folder import ExperimentFolder, KeptRun
from lagbench.core.measures.measures import Measures

ROOT = Path(__file__).resolve().parents[3]
FINDINGS = ROOT / "docs" / "findings"


def kept_runs(experiment: str) -> Iterator[tuple[dict[str, Any], Measures]]:
    """Yield the record and the measures of each kept run, also of a repeated one."""
    runs = files_of_runs(experiment)
    assert runs, f"no run of {experiment} is kept"
    for run in runs:
        yield dict(run.record or {}), Measures.model_validate(run.files["measures"])


def files_of_runs(experiment: str) -> list[KeptRun]:
    """Return each kept run whole."""
    return ExperimentFolder(FINDINGS / experiment).runs()


def page(experiment: str) -> str:
    """Return a page of findings with each blank and line break as one blank."""
    return " ".join((FINDINGS / experiment / "README.md").read_text().split())


def steps_text(measures: Measures, most: int | None = None) -> str:
    """Return the replica steps with their seconds of the stream, as the pages quote them."""
    began = measures.load.stream_started_at or 0
    changes = measures.scaling.changes[:most]
    first, *others = [f"→ {c.replicas_after} at {(c.at - began) / 1e9:.1f}" for c in changes]
    return ", ".join([f"{changes[0].replicas_before} {first}", *others])


def replicas_text(measures: Measures) -> str:
    """Return the replicas in their order, as the pages quote them."""
    changes = measures.scaling.changes
    after = [str(change.replicas_after) for change in changes]
    first = changes[0].replicas_before if changes else measures.scaling.max_replicas
    return " → ".join([str(first), *after])


def is_cell(record: dict[str, Any], cell: str) -> bool:
    """Return whether a kept run is one of a cell."""
    return record["cell"] == cell
