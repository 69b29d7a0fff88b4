"""Setup: one home. An experiment that is stopped in its second run, as a user does."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest
import yaml

from lagbench.adapters.runs.experiment_folder import read_runs
from lagbench.core.scenario.stream_start import phase_distance_seconds
from tests.e2e.rehearsal import DOWN_LIMIT_SECONDS, POLICY, SCENARIO, Rehearsal, wait_until

pytestmark = [pytest.mark.measured, pytest.mark.slow, pytest.mark.timeout(2700)]

CELLS = [
    {"name": "cooperative", "policy": str(POLICY)},
    {"name": "range", "policy": str(POLICY), "overrides": {"consumer.balancer": "range"}},
]
EXPERIMENT = {
    "name": "tiny",
    "title": "Tiny",
    "question": "Does it differ?",
    "scenario": str(SCENARIO),
    # What one pod does at once: nothing to drain and to settle before the accounting.
    "overrides": {
        "profile.rate_per_second": 20,
        "profile.spike_hold_seconds": 4,
        "tail": "none",
    },
    "cells": CELLS,
    "pairs": 6,
    "hours": 0.3,
}


def records(folder: Path) -> list[dict[str, Any]]:
    """Return the records of the experiment's runs."""
    found = folder.glob("_experiments/tiny/*/runs.jsonl.gz")
    return [dict(run.record or {}) for path in found for run in read_runs(path)]


def test_a_stopped_experiment_keeps_what_it_has_measured(rehearsal: Rehearsal) -> None:
    """Ctrl-C in the second run: the first one is kept, with its planned phase."""
    file = rehearsal.root / "tiny.yaml"
    file.write_text(yaml.safe_dump(EXPERIMENT))
    runs = rehearsal.root / "runs"
    process = rehearsal.start("experiment", str(file))
    wait_until(lambda: bool(records(runs)), "the record of the first run", limit_seconds=1200)
    process.send_signal(signal.SIGINT)
    code = process.wait(timeout=DOWN_LIMIT_SECONDS)

    assert code == 130, rehearsal.output()
    (record,) = records(runs)
    # A machine without time makes a run invalid: it is kept, and repeated.
    done = 1 if record["is_result"] else 0
    assert f"{done} of 12 runs are done and kept" in rehearsal.output()
    (execution,) = runs.glob("_experiments/tiny/*/execution.json")
    first = json.loads(execution.read_text())["schedule"]["runs"][0]
    assert (record["pair"], record["cell"]) == (first["pair"], first["cell"])
    apart = phase_distance_seconds(record["hpa_sync_at_seconds"], first["hpa_sync_at_seconds"])
    assert apart < 1
    wait_until(
        lambda: not rehearsal.processes(),
        "no process of the home",
        limit_seconds=DOWN_LIMIT_SECONDS,
    )

    assert rehearsal.finish(rehearsal.start("experiment", str(file), "--plan")) == 0
    assert f"continues: {done} of 12 runs are done" in rehearsal.output()
