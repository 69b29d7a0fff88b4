"""Where the rig keeps what it builds."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cluster.rig.versions import cache_folder


def test_a_fresh_machine_gets_its_cache_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The image's layers are the first to be written, before any program is built."""
    monkeypatch.setenv("LAGBENCH_RIG_CACHE", str(tmp_path / "not" / "there"))

    folder = cache_folder()

    assert folder.is_dir()
    assert folder.parent == tmp_path / "not" / "there"
