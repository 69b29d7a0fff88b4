"""Recorded messages of the real KEDA operator for wrong ScaledObjects, against those made here."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from lagbench.core.keda.loop.composite import compile_modifiers
from lagbench.core.keda.object.scaled_object import TriggerRefused, parse_scaled_object

_FILE = Path(__file__).parents[1] / "data" / "keda_refusals.json.gz"
ROWS: list[dict[str, Any]] = json.loads(gzip.decompress(_FILE.read_bytes()))["rows"]


@pytest.mark.parametrize("row", [pytest.param(row, id=row["name"]) for row in ROWS])
def test_the_reason_is_kedas(row: dict[str, Any]) -> None:
    """The message of Ready=False is the same, letter for letter, and so is the scaler's event."""
    with pytest.raises(TriggerRefused) as caught:
        compile_modifiers(parse_scaled_object(row["scaled_object"], where="f", auth={}))

    assert caught.value.condition_message == row["ready_message"]
    is_scaler = row["scaler_event"] is not None
    assert (caught.value.stage == "scaler") == is_scaler
    if is_scaler:
        assert caught.value.keda_message == row["scaler_event"]
