"""Pods whose time is not known, because nobody saw them."""

from __future__ import annotations

import re

import pytest

from lagbench.core.measures.evidence.unrecorded import unwatched_text
from lagbench.core.telemetry.consumer import GroupJoined
from lagbench.core.telemetry.recorder import PodSeen, ReadGap
from lagbench.core.telemetry.records import TelemetryRecord

NS = 1_000_000_000


def pod(name: str) -> PodSeen:
    """Return the record of a pod."""
    return PodSeen(
        at=0,
        source="recorder",
        pod=name,
        created_at=0,
        started_at=None,
        ready_at=None,
        deleted_at=None,
        gone_at=None,
        exit_code=None,
        exit_reason="",
        precision_ns=1,
    )


def unread(*seconds: float) -> list[ReadGap]:
    """Return failures to read the pods."""
    return [
        ReadGap(at=round(second * NS), source="recorder", what="pods", reason="no answer")
        for second in seconds
    ]


def told(*records: TelemetryRecord, members_are_pods: bool = True) -> str:
    """Return what is said of the first minute."""
    return unwatched_text(records, ["shop-a"], 0, 60 * NS, members_are_pods=members_are_pods)


JOINED = GroupJoined(at=NS, source="rdkafka/1a2b", member_id="m")


def test_a_member_without_a_pod_is_named() -> None:
    """It reported itself by the name of its pod, which no record of the watch has."""
    assert "rdkafka/1a2b" in told(pod("shop-a"), JOINED)


def test_a_member_with_a_name_of_its_own_hides_no_pod() -> None:
    """An observed group names its members by client ids; all its pods were watched."""
    assert told(pod("shop-a"), JOINED, members_are_pods=False) == ""


@pytest.mark.parametrize(
    ("seconds", "numbers"),
    [
        ((10, 11, 12, 13, 14), ["4.0"]),
        ((10, 11), []),
        ((10, 30, 50), []),
        ((70, 71, 72, 73, 74, 75), []),
    ],
)
def test_a_watch_that_was_blind_for_long_may_have_missed_a_pod(
    seconds: tuple[float, ...], numbers: list[str]
) -> None:
    """After a short break the next list has each pod that lived longer than the break."""
    assert re.findall(r"[\d.]+", told(pod("shop-a"), *unread(*seconds))) == numbers


def test_pods_that_nobody_watched_are_not_known() -> None:
    """There is not one record of a pod."""
    assert "not watched" in told()
