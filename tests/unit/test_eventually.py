"""The wait of the tests for what other processes do."""

from __future__ import annotations

import pytest
from tests.eventually import eventually


def test_it_waits_until_what_is_seen_is_true() -> None:
    """False, None and an empty list are looked at again; what is true is given back."""
    seen = iter([False, None, [], ["pod-0"], ["pod-1"]])

    assert eventually(lambda: next(seen), "a pod") == ["pod-0"]


def test_past_its_limit_it_fails_with_what_it_last_saw() -> None:
    """What never becomes true is an error that names the wait and the last sight."""
    with pytest.raises(AssertionError, match=r" 0 s: no HPA; .*False"):
        eventually(lambda: False, "no HPA", within_seconds=0)
