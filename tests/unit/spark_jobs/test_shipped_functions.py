"""What Spark ships to Python workers that do not see this folder."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import pytest
from pyspark import cloudpickle

import lagbench_spark
from lagbench_spark.transforms.event_rows import decode_events
from lagbench_spark.transforms.ledger_rows import decode_ledger


@pytest.mark.parametrize("function", [decode_events, decode_ledger])
def test_a_decoder_is_shipped_by_value(function: Callable[..., Any]) -> None:
    """It and all that it reaches can be pickled: a compiled ``struct.Struct`` cannot."""
    cloudpickle.register_pickle_by_value(lagbench_spark)
    try:
        shipped = pickle.loads(cloudpickle.dumps(function))  # noqa: S301 - our own bytes
    finally:
        cloudpickle.unregister_pickle_by_value(lagbench_spark)

    assert shipped is not function
    assert shipped.__name__ == function.__name__
