"""The state file is replaced whole, belongs to its owner, and one bad write is not the last."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from lagbench.errors import NotReady
from lagbench.programs.lag_scaler.lag_scaler_metrics import ScalerMetrics
from lagbench.programs.lag_scaler.lag_scaler_server import save
from lagbench.programs.lag_scaler.rule_registry import SavedState, read_state, write_state

EMPTY = SavedState(saved_at_ns=1, objects=[], windows={})


def test_what_was_written_last_is_read(tmp_path: Path) -> None:
    """Nothing at first; then the last content, readable by the owner only, and no other file."""
    path, last = tmp_path / "state", SavedState(2, [], {"a": b"b"})

    before = read_state(path)
    write_state(path, EMPTY)
    write_state(path, last)

    assert before is None
    assert read_state(path) == last
    assert [file.name for file in tmp_path.iterdir()] == ["state"]
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_folder_that_is_missing_is_not_made(tmp_path: Path) -> None:
    """The embedded bench has no volume: writing fails with the path, and leaves no trace."""
    path = tmp_path / "volume" / "state"

    assert read_state(path) is None
    with pytest.raises(NotReady, match="volume/state"):
        write_state(path, EMPTY)
    assert not path.parent.exists()


@pytest.mark.parametrize(
    "data", [b"", b"\x93nonsense", msgspec.msgpack.encode(SavedState(1, [], {}, "x/2"))]
)
def test_other_contents_are_refused(data: bytes, tmp_path: Path) -> None:
    """A file that is cut short, of another program or of another version is not used."""
    (tmp_path / "state").write_bytes(data)

    with pytest.raises(NotReady, match="cannot be used"):
        read_state(tmp_path / "state")


def test_an_error_while_the_state_is_saved_is_counted_and_the_next_state_is_written(
    tmp_path: Path,
) -> None:
    """Without it the task would end: no state until the restart that needs one."""
    results: list[Exception | SavedState] = [RuntimeError("cannot schedule"), EMPTY]

    async def saved() -> SavedState:
        result = results.pop(0)
        if isinstance(result, Exception):
            raise result
        return result

    registry: Any = SimpleNamespace(saved=saved)
    metrics, path = ScalerMetrics(), tmp_path / "state"

    async def saves() -> None:
        await save(registry, metrics, path)
        assert read_state(path) is None
        await save(registry, metrics, path)

    asyncio.run(saves())

    assert read_state(path) == EMPTY
    exposed = metrics.exposition()[1]
    assert b'lagbench_scaler_state_writes_total{result="failed"} 1.0' in exposed
    assert b'lagbench_scaler_state_writes_total{result="good"} 1.0' in exposed
