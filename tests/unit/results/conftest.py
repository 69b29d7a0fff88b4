"""What tests of a run's results share."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.fakes.tampered_run import TamperedRun, tampered


@pytest.fixture
def run(tmp_path: Path) -> TamperedRun:
    """Return a fresh copy of the kept run that passed."""
    return tampered(tmp_path)
