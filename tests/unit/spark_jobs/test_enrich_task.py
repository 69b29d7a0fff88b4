"""A task of the Spark consumer takes the run's events out of whatever lies in the topic."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from lagbench.shared_with_spark.event import EVENT_BYTES, EVENT_DTYPE
from lagbench_enrich.task import events_in


def test_records_of_others_are_passed_over() -> None:
    """A tombstone and a short value do not end the query: they would at each start again."""
    events = np.zeros(2, EVENT_DTYPE)
    events["seq"] = (4, 5)
    first, second = (event.tobytes() for event in events)
    assert len(first) == EVENT_BYTES

    is_event, found = events_in(pa.array([first, None, b"short", second], pa.binary()))

    assert is_event.tolist() == [True, False, False, True]
    assert found["seq"].tolist() == [4, 5]


def test_a_batch_without_events_has_none() -> None:
    """All its records are foreign."""
    is_event, found = events_in(pa.array([None, b""], pa.binary()))

    assert (is_event.tolist(), len(found)) == ([False, False], 0)
