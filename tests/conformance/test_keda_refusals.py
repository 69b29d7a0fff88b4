"""Recorded messages of the real KEDA operator for wrong ScaledObjects, against those made here."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from lagbench.core.keda.object.scaled_object import parse_scaled_object
from lagbench.core.keda.triggers.trigger_parameters import TriggerRefused

_FILE = Path(__file__).parents[1] / "data" / "keda_refusals.json.gz"
ROWS: list[dict[str, Any]] = json.loads(gzip.decompress(_FILE.read_bytes()))["rows"]


# KEDA's words for them: "metric type", "target.type", "partition limitation".
NAMED_OTHERWISE = {"metrictype", "value", "partitionlimitation"}


@pytest.mark.parametrize("row", [pytest.param(row, id=row["name"]) for row in ROWS])
def test_the_same_parameter_is_refused(row: dict[str, Any]) -> None:
    """The same step refuses, for the same parameter, and with the same event."""
    with pytest.raises(TriggerRefused) as caught:
        parse_scaled_object(row["scaled_object"], where="f", auth={})

    step = caught.value.condition_message.partition(": ")[0]
    assert row["ready_message"].startswith(step)
    named = caught.value.field.rpartition(".")[2].lower()
    assert named in NAMED_OTHERWISE or named in row["ready_message"].lower()
    is_scaler = row["scaler_event"] is not None
    assert (caught.value.stage == "scaler") == is_scaler
