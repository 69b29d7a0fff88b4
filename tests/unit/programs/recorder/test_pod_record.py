"""A pod's timeline, read from its object."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from lagbench.programs.recorder.pod_record import pod_seen

SECOND = 1_000_000_000


def instant(text: str) -> int:
    """Return unix nanoseconds of a time of 2026-11-21."""
    moment = datetime.fromisoformat(f"2026-11-21T{text}").replace(tzinfo=UTC)
    return int(moment.timestamp()) * SECOND


def pod(**status: Any) -> dict[str, Any]:
    """Return a pod as a cluster shows it."""
    return {
        "metadata": {
            "name": "consumer-1",
            "uid": "u-1",
            "creationTimestamp": "2026-11-21T10:00:00Z",
        },
        "status": status,
    }


def test_a_clusters_instants_are_whole_seconds() -> None:
    """metav1.Time has seconds only, and the record says so."""
    found = pod(
        conditions=[
            {"type": "Ready", "status": "True", "lastTransitionTime": "2026-11-21T10:00:04Z"}
        ],
        containerStatuses=[{"state": {"running": {"startedAt": "2026-11-21T10:00:02Z"}}}],
    )

    seen = pod_seen(found, at=1, source="recorder", gone_at=None)

    assert seen.created_at == instant("10:00:00")
    assert seen.started_at == instant("10:00:02")
    assert seen.ready_at == instant("10:00:04")
    assert (seen.deleted_at, seen.gone_at, seen.exit_code) == (None, None, None)
    assert seen.precision_ns == SECOND


def test_localkubes_annotations_are_exact() -> None:
    """Annotations in nanoseconds win over the rounded fields."""
    found = pod(containerStatuses=[{"state": {"running": {"startedAt": "2026-11-21T10:00:02Z"}}}])
    found["metadata"]["annotations"] = {
        "lagbench.io/created-at-ns": "17",
        "lagbench.io/started-at-ns": "23",
        "lagbench.io/ready-at-ns": "42",
        "lagbench.io/deleted-at-ns": "99",
    }

    seen = pod_seen(found, at=1, source="recorder", gone_at=120)

    assert (seen.created_at, seen.started_at, seen.ready_at, seen.deleted_at) == (17, 23, 42, 99)
    assert (seen.gone_at, seen.precision_ns) == (120, 1)


def test_a_pod_that_is_not_ready_has_no_ready_instant() -> None:
    """A condition that is False is not an instant, and none is no zero."""
    found = pod(conditions=[{"type": "Ready", "status": "False", "lastTransitionTime": "x"}])

    seen = pod_seen(found, at=1, source="recorder", gone_at=None)

    assert (seen.ready_at, seen.started_at) == (None, None)


def test_deletion_was_asked_for_a_grace_period_before_its_timestamp() -> None:
    """DeletionTimestamp lies in the future by the grace period."""
    found = pod()
    found["metadata"] |= {
        "deletionTimestamp": "2026-11-21T10:05:40Z",
        "deletionGracePeriodSeconds": 40,
    }

    seen = pod_seen(found, at=1, source="recorder", gone_at=None)

    assert seen.deleted_at == instant("10:05:00")


def test_an_ended_container_keeps_its_start_and_reports_its_exit() -> None:
    """Exit code and reason come from the container that ended."""
    ended = {"exitCode": 137, "reason": "Error", "startedAt": "2026-11-21T10:00:02Z"}
    found = pod(containerStatuses=[{"state": {"terminated": ended}}])

    seen = pod_seen(found, at=1, source="recorder", gone_at=None)

    assert (seen.exit_code, seen.exit_reason) == (137, "Error")
    assert seen.started_at == instant("10:00:02")


def test_a_second_kill_of_the_container_is_another_record() -> None:
    """Its first start and its exit code stay the same on localkube: the ends are counted."""
    ended = {"exitCode": 137, "reason": "Error", "startedAt": "2026-11-21T10:00:02Z"}
    states: list[dict[str, Any]] = [
        {"restartCount": 0, "state": {"terminated": ended}},
        {"restartCount": 1, "state": {"running": {}}, "lastState": {"terminated": ended}},
        {"restartCount": 1, "state": {"terminated": ended}},
    ]
    found = [pod(containerStatuses=[state]) for state in states]
    for shown in found:
        shown["metadata"]["annotations"] = {"lagbench.io/started-at-ns": "23"}

    first, again, second = (pod_seen(s, at=1, source="recorder", gone_at=None) for s in found)

    assert [s.containers_ended for s in (first, again, second)] == [1, 1, 2]
    assert first == again != second


def test_a_container_that_is_about_to_start_again_ended_once() -> None:
    """The restart is already counted on localkube, and the end before it is still shown."""
    ended = {"terminated": {"exitCode": 137, "finishedAt": "2026-11-21T10:00:09Z"}}
    found = pod(containerStatuses=[{"restartCount": 1, "state": ended, "lastState": ended}])

    assert pod_seen(found, at=1, source="recorder", gone_at=None).containers_ended == 1


def test_a_container_that_is_removed_before_its_start_has_not_ended_again() -> None:
    """It waited in back-off, and its kill before that is counted."""
    ended = {"terminated": {"exitCode": 137, "finishedAt": "2026-11-21T10:00:09Z"}}
    never = {"terminated": {"exitCode": 137, "reason": "ContainerStatusUnknown"}}
    found = pod(containerStatuses=[{"restartCount": 2, "state": never, "lastState": ended}])

    assert pod_seen(found, at=1, source="recorder", gone_at=None).containers_ended == 2


def test_an_evicted_pod_reports_its_phase_and_its_end() -> None:
    """Its object stays: the last container's end is the end of its time."""
    ended = {"exitCode": 137, "reason": "Error", "finishedAt": "2026-11-21T10:01:02Z"}
    before = ended | {"finishedAt": "2026-11-21T10:01:00Z"}
    containers = [{"state": {"terminated": ended}}, {"state": {"terminated": before}}]
    found = pod(phase="Failed", reason="Evicted", containerStatuses=containers)

    seen = pod_seen(found, at=1, source="recorder", gone_at=None)

    assert (seen.phase, seen.finished_at) == ("Failed", instant("10:01:02"))


@pytest.mark.parametrize("ended", [{}, {"exitCode": 137, "finishedAt": None}])
def test_an_end_that_nobody_stamped_is_not_known(ended: dict[str, Any]) -> None:
    """A pod that its node rejected has no container; of one that was lost no end is told."""
    statuses = [{"state": {"terminated": ended}}] if ended else []

    seen = pod_seen(
        pod(phase="Failed", containerStatuses=statuses), at=1, source="recorder", gone_at=None
    )

    assert (seen.phase, seen.finished_at) == ("Failed", None)


def test_a_container_that_is_started_again_is_no_end() -> None:
    """A consumer that crashed continues in the same pod."""
    ended = {"exitCode": 1, "reason": "Error", "finishedAt": "2026-11-21T10:01:02Z"}
    found = pod(phase="Running", containerStatuses=[{"state": {"terminated": ended}}])

    assert pod_seen(found, at=1, source="recorder", gone_at=None).finished_at is None
