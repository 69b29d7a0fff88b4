"""The state file is replaced whole, belongs to its owner, and says when it cannot be used."""

from pathlib import Path

import pytest

from lagbench.errors import NotReady
from lagbench.programs.lag_scaler.saved_state import (
    EARLIER_FORMAT,
    SavedState,
    decode_state,
    encode_state,
)
from lagbench.programs.lag_scaler.state_file import StateFile


def test_what_was_written_last_is_read(tmp_path: Path) -> None:
    """Nothing at first; then the last content, readable by the owner only, and no other file."""
    file = StateFile(tmp_path / "state")

    before = file.read()
    file.write(b"one")
    file.write(b"two")

    assert before is None
    assert file.read() == b"two"
    assert [path.name for path in tmp_path.iterdir()] == ["state"]
    assert (tmp_path / "state").stat().st_mode & 0o777 == 0o600


def test_a_folder_that_is_missing_is_not_made(tmp_path: Path) -> None:
    """The embedded bench has no volume: writing fails with the path, and leaves no trace."""
    file = StateFile(tmp_path / "volume" / "state")

    assert file.read() is None
    with pytest.raises(NotReady, match="volume/state"):
        file.write(b"one")
    assert not (tmp_path / "volume").exists()


@pytest.mark.parametrize("data", [b"", b"\x93nonsense", encode_state(SavedState(1, [], {}, "x/2"))])
def test_other_contents_are_refused(data: bytes) -> None:
    """A file that is cut short, of another program or of another version is not used."""
    with pytest.raises(NotReady, match="cannot be used"):
        decode_state(data)


def test_the_state_of_an_earlier_version_is_read() -> None:
    """Its format has the program's earlier name, and the same content."""
    state = SavedState(1, [], {"a": b"b"}, EARLIER_FORMAT)

    assert decode_state(encode_state(state)) == state
