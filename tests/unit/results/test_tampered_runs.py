"""Recorded run folders that were tampered with: what a verdict must not be fooled by."""

from __future__ import annotations

from pathlib import Path

from tests.fakes.tampered_run import tampered


def test_a_folder_of_format_1_passes(tmp_path: Path) -> None:
    """The folder as it was recorded is judged pass, as its own verdict says."""
    assert tampered(tmp_path).judge().status == "pass"
