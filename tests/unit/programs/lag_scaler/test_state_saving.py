"""The state is written now and then, whatever becomes of one write."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from lagbench.programs.lag_scaler import server
from lagbench.programs.lag_scaler.metrics import ScalerMetrics
from lagbench.programs.lag_scaler.saved_state import SavedState
from lagbench.programs.lag_scaler.state_file import StateFile


def test_an_error_while_the_state_is_saved_is_counted_and_the_next_state_is_written(
    tmp_path: Path,
) -> None:
    """Without it the task would end: no state until the restart that needs one."""
    results: list[Exception | SavedState] = [
        RuntimeError("cannot schedule new futures after shutdown"),
        SavedState(saved_at_ns=1, objects=[], windows={}),
    ]

    async def saved() -> SavedState:
        result = results.pop(0)
        if isinstance(result, Exception):
            raise result
        return result

    registry: Any = SimpleNamespace(saved=saved)
    state = StateFile(tmp_path / "state")
    parts = server._Parts(registry, ScalerMetrics(), state)

    async def saves() -> None:
        await server._save(parts)
        assert state.read() is None
        await server._save(parts)

    asyncio.run(saves())

    assert state.read() is not None
    exposed = parts.metrics.exposition()[1]
    assert b'lagbench_scaler_state_writes_total{result="failed"} 1.0' in exposed
    assert b'lagbench_scaler_state_writes_total{result="good"} 1.0' in exposed
