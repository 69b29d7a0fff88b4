"""The folders that variables of the environment name."""

from __future__ import annotations

from pathlib import Path

import pytest

from lagbench.errors import WrongInput
from lagbench.project import named_folder


@pytest.mark.parametrize("named", ["/dev/null", "/dev/null/runs", "a" * 5000])
def test_what_is_no_folder_is_refused(monkeypatch: pytest.MonkeyPatch, named: str) -> None:
    """Before anything is read from it or written to it."""
    monkeypatch.setenv("SOME_DIR", named)

    with pytest.raises(WrongInput) as refused:
        named_folder("SOME_DIR", Path("/default"))

    assert (refused.value.field, refused.value.value) == ("SOME_DIR", named)


def test_a_folder_need_not_be_there_yet(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Empty is not named."""
    monkeypatch.setenv("SOME_DIR", str(tmp_path / "new" / "runs"))
    assert named_folder("SOME_DIR", Path("/default")) == tmp_path / "new" / "runs"

    monkeypatch.setenv("SOME_DIR", "")
    assert named_folder("SOME_DIR", Path("/default")) == Path("/default")
