"""The comparison of recorded prometheus triggers with those of the real KEDA."""

from __future__ import annotations

from tests.conformance.prometheus_traces import REAL, differences, states


def test_a_recording_equals_itself() -> None:
    """Each of the 22 cases is seen in three stages, and none differs from itself."""
    assert len(states(REAL)) == 66
    assert differences(REAL, REAL) == (66, [])
