"""What tests of several packages share."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest
from tests.fakes.tampered_run import RECORDED


@pytest.fixture(scope="session")
def kept_pass(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a kept run of the present format that passed."""
    root = tmp_path_factory.mktemp("kept_pass")
    with tarfile.open(RECORDED / "stand_in_pass.tar.xz") as archive:
        archive.extractall(root, filter="data")
    (path,) = root.iterdir()
    return path
