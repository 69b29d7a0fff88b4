"""What tests of a run's results share."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.fakes.tampered_run import TamperedRun, tampered


@pytest.fixture
def run(kept_pass: Path, tmp_path: Path) -> TamperedRun:
    """Return a fresh copy of it.

    150/s, from 8 s to 18 s 1,500/s, until 22 s and in its tail 150/s again; 1 pod, at +9.8 s 4
    wanted by a sync (the next ones at +25 and +40); reaction 6.07 s; drained 12.3 s after the
    spike, at +30.3 s; 1 pod again at +40.1 s; the end at +67.4 s.
    """
    return tampered(tmp_path, kept_pass)
