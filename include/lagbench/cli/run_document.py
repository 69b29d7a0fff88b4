"""A run and the list of runs as JSON: what ``show`` and ``run`` print with ``--json``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lagbench.adapters.runs.run_folder import RunFolder, RunSummary
from lagbench.cli.verdict_table import verdict_of
from lagbench.core.kubernetes_values import format_instant
from lagbench.core.measures.measures import NAMED
from lagbench.core.verdict.in_words import in_words
from lagbench.core.verdict.verdict import exit_code
from lagbench.errors import ExitCode
from lagbench.report.outcome_files import known_measures
from lagbench.results.gate import read_record

_OF_AN_SLO = {
    *("name", "title", "status", "level", "value", "low", "high", "limit", "unit", "reason")
}
_OF_A_RUN = ("scenario", "policy", "seed", "fidelity")


def runs_document(runs: Sequence[RunSummary]) -> list[dict[str, Any]]:
    """Return a line for each run; null where the run has not written that yet."""
    return [
        {
            "run_id": run.run_id,
            "began": began(run.created_at),
            **{name: getattr(run, name) for name in (*_OF_A_RUN, "verdict")},
        }
        for run in runs
    ]


def run_document(folder: RunFolder) -> tuple[ExitCode, dict[str, Any]]:
    """Return a run's exit code and its verdict with what it rests on; null: it was not measured."""
    verdict, record = verdict_of(folder), read_record(folder)
    manifest = folder.read_json(folder.manifest) if folder.manifest.exists() else {}
    document = {
        "run_id": folder.reference,
        "folder": str(folder.path),
        "report": str(folder.report) if folder.report.exists() else None,
        "began": began(manifest.get("created_at")),
        **{name: manifest.get(name) for name in _OF_A_RUN},
        "verdict": verdict.status,
        "exit_code": int(exit_code(verdict)),
        "text": in_words(verdict, known_measures(folder)),
        "is_partial": verdict.is_partial,
        "reasons": verdict.reasons,
        "invalid": verdict.invalid,
        "notes": verdict.notes,
        "slos": [slo.model_dump(mode="json", include=_OF_AN_SLO) for slo in verdict.slos],
        "gate": None if record is None else record.status,
        **_of_group(folder),
    }
    if folder.second is not None:
        document["second_group"] = _of_group(folder.second)
    return exit_code(verdict), document


def _of_group(folder: RunFolder) -> dict[str, Any]:
    found = known_measures(folder)
    measures = None if found is None else {name: of.read(found) for name, of in NAMED.items()}
    counts = folder.read_json(folder.accounting) if folder.accounting.exists() else None
    return {"measures": measures, "accounting": counts}


def began(created_at: int | None) -> str | None:
    """Return an instant as ISO 8601 in UTC."""
    return None if created_at is None else format_instant(created_at)
