"""One process at a time appends whole lines to live.jsonl."""

from __future__ import annotations

from pathlib import Path

import pytest

from lagbench.core.live.line import LiveLine, decode_line
from lagbench.errors import NotReady
from lagbench.programs.live import live_file
from lagbench.programs.live.live_file import LiveFile, is_followed


def test_a_line_is_appended_to_what_is_there(tmp_path: Path) -> None:
    """A follower that starts again loses no line of the one before."""
    for at in (1, 2):
        with LiveFile(tmp_path / "live.jsonl") as file:
            assert file.append(LiveLine(at=at))

    lines = (tmp_path / "live.jsonl").read_bytes().splitlines()
    assert [decode_line(line).at for line in lines] == [1, 2]


def test_a_held_file_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two followers would mix their lines."""
    monkeypatch.setattr(live_file, "LOOKS", 1)
    with LiveFile(tmp_path / "live.jsonl"), pytest.raises(NotReady):
        LiveFile(tmp_path / "live.jsonl")


def test_the_lock_shows_whether_a_run_is_followed(tmp_path: Path) -> None:
    """Neither a missing file nor one that was let go has a follower."""
    path = tmp_path / "live.jsonl"
    assert not is_followed(path)

    with LiveFile(path):
        assert is_followed(path)

    assert not is_followed(path)


def test_a_full_file_stays_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A line that does not fit is not written, not even in part."""
    monkeypatch.setattr(live_file, "has_room", lambda _size, _line: False)
    with LiveFile(tmp_path / "live.jsonl") as file:
        assert not file.append(LiveLine(at=1))

    assert (tmp_path / "live.jsonl").read_bytes() == b""


def test_a_folder_that_is_gone_is_named(tmp_path: Path) -> None:
    """The message has the path and the reason."""
    with pytest.raises(NotReady, match="No such file"):
        LiveFile(tmp_path / "gone" / "live.jsonl")
