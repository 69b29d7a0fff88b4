"""What tests of a run's results share."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest
from tests.fakes.tampered_run import RECORDED, TamperedRun, tampered


@pytest.fixture(scope="session")
def kept_pass(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a kept run of the present format that passed."""
    root = tmp_path_factory.mktemp("kept_pass")
    with tarfile.open(RECORDED / "stand_in_pass.tar.xz") as archive:
        archive.extractall(root, filter="data")
    (path,) = root.iterdir()
    return path


@pytest.fixture
def passed(kept_pass: Path, tmp_path: Path) -> TamperedRun:
    """Return a fresh copy of it: 1 to 4 pods at +9.8 s by a sync, the next ones at +25 and +40."""
    return tampered(tmp_path, kept_pass)


@pytest.fixture
def run(passed: TamperedRun) -> TamperedRun:
    """Return the same."""
    return passed
