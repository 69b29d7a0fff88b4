"""Measures of the simulated quick_spike run, computed once in a temporary folder."""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path

from lagbench.core.measures.measures import Measures
from lagbench.results.measure import measure_run
from tests.fakes.run_folder_builder import quick_spike_run


@cache
def quick_spike_measures() -> Measures:
    """Return the measures of ``quick_spike_run()``."""
    with tempfile.TemporaryDirectory() as root:
        return measure_run(quick_spike_run().write(Path(root)))
