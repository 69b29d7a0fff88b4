"""Measures of the simulated quick_spike run, computed once in a temporary folder."""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from lagbench.core.measures.measures import Measures
from lagbench.core.verdict.slo import SloResult
from lagbench.core.verdict.verdict import Verdict
from lagbench.results.measure_run import measure_run
from tests.fakes.run_folder_builder import quick_spike_run


@cache
def quick_spike_measures() -> Measures:
    """Return the measures of ``quick_spike_run()``."""
    with tempfile.TemporaryDirectory() as root:
        return measure_run(quick_spike_run().write(Path(root)))


def changed(part: str, run: Measures | None = None, /, **fields: Any) -> Measures:
    """Return the run's measures (the simulated run's) with ``fields`` of ``part`` changed."""
    run = run or quick_spike_measures()
    return run.model_copy(update={part: getattr(run, part).model_copy(update=fields)})


def result(verdict: Verdict, name: str) -> SloResult:
    """Return one SLO's result."""
    return next(slo for slo in verdict.slos if slo.name == name)
