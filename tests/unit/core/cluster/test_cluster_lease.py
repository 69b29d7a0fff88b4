"""Whose turn it is in a namespace, on the API server's clock."""

from __future__ import annotations

from typing import Any

import pytest

from lagbench.catalog.catalog import load_scenario
from lagbench.core.cluster.lease import (
    AROUND_THE_LOAD_SECONDS,
    TRIES,
    LeaseClaim,
    Standing,
    claimed_lease,
    held_message,
    lease_record,
    lease_standing,
    longest_run_seconds,
)
from lagbench.core.kubernetes.kubernetes_values import NS_PER_SECOND, parse_instant_ns
from lagbench.core.scenario.actions import KillPod, actions_seconds
from lagbench.core.scenario.scenario import Scenario

NOW = "2026-11-21T12:00:00Z"
NOW_NS = parse_instant_ns(NOW)
MINE, THEIRS = "here-1a2b3c4d", "there-5e6f7081"
CLAIM = LeaseClaim(MINE, "quick-spike-1", 3600)


def lease(**spec: Any) -> dict[str, Any]:
    """Return a Lease of ``THEIRS``, taken now, for an hour; ``None`` leaves a field out."""
    full = {
        "holderIdentity": THEIRS,
        "acquireTime": "2026-11-21T11:00:00.000000Z",
        "renewTime": "2026-11-21T12:00:00.000000Z",
        "leaseDurationSeconds": 3600,
        "leaseTransitions": 4,
        **spec,
    }
    return {
        "metadata": {
            "name": "lagbench",
            "uid": "u",
            "resourceVersion": "41",
            "annotations": {"lagbench.io/run-id": "standard-1"},
        },
        "spec": {key: value for key, value in full.items() if value is not None},
    }


@pytest.mark.parametrize(
    ("found", "after_seconds", "expected"),
    [
        (None, 0, Standing.FREE),
        (lease(holderIdentity=""), 0, Standing.FREE),
        (lease(holderIdentity=None), 0, Standing.FREE),
        ({"metadata": {"name": "lagbench"}}, 0, Standing.FREE),
        (lease(holderIdentity=MINE), 0, Standing.OWN),
        (lease(holderIdentity=MINE), 7200, Standing.OWN),  # expired, and nobody took it
        (lease(), 0, Standing.HELD),
        (lease(), 3600, Standing.HELD),
        (lease(), 3601, Standing.EXPIRED),
        (lease(), -600, Standing.HELD),  # renewed in the future: that clock was set back
        (lease(renewTime=None), 10**6, Standing.HELD),
        (lease(leaseDurationSeconds=None), 10**6, Standing.HELD),
        (lease(renewTime="2026-11-21T13:00:00.000000+01:00"), 3601, Standing.EXPIRED),
    ],
)
def test_the_standing_of_a_lease(
    found: dict[str, Any] | None, after_seconds: int, expected: Standing
) -> None:
    """Free, own, expired, held: by holder, renewTime and duration, and by one clock alone."""
    record = None if found is None else lease_record(found)

    assert lease_standing(record, MINE, NOW_NS + after_seconds * NS_PER_SECOND) is expected


def test_a_first_lease_says_all() -> None:
    """Holder, run, instants with six digits as metav1.MicroTime wants them, duration."""
    assert claimed_lease(None, CLAIM, NOW_NS) == {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "lagbench", "annotations": {"lagbench.io/run-id": "quick-spike-1"}},
        "spec": {
            "holderIdentity": MINE,
            "acquireTime": "2026-11-21T12:00:00.000000Z",
            "renewTime": "2026-11-21T12:00:00.000000Z",
            "leaseDurationSeconds": 3600,
            "leaseTransitions": 0,
        },
    }


def test_taking_over_is_bound_to_what_was_seen() -> None:
    """Version and uid go along, the change of holder is counted, the input stays as it was."""
    found = lease()

    taken = claimed_lease(found, CLAIM, NOW_NS + 2 * 3600 * NS_PER_SECOND)

    assert (taken["metadata"]["uid"], taken["metadata"]["resourceVersion"]) == ("u", "41")
    assert taken["metadata"]["annotations"] == {"lagbench.io/run-id": "quick-spike-1"}
    assert taken["spec"]["leaseTransitions"] == 5
    assert taken["spec"]["acquireTime"] == "2026-11-21T14:00:00.000000Z"
    assert found == lease()


@pytest.mark.parametrize(
    ("run_id", "acquired_at"),
    [("standard-1", "2026-11-21T11:00:00.000000Z"), ("standard-2", "2026-11-21T12:10:00.000000Z")],
)
def test_renewing_ones_own(run_id: str, acquired_at: str) -> None:
    """The same run keeps the instant at which it took the Lease; a later run has its own."""
    now_ns = NOW_NS + 600 * NS_PER_SECOND

    taken = claimed_lease(lease(holderIdentity=MINE), LeaseClaim(MINE, run_id, 60), now_ns)

    assert taken["spec"]["acquireTime"] == acquired_at
    assert taken["spec"]["renewTime"] == "2026-11-21T12:10:00.000000Z"
    assert taken["spec"]["leaseTransitions"] == 4
    assert lease_record(taken).until_ns == now_ns + 60 * NS_PER_SECOND


def test_the_message_names_all_that_one_needs() -> None:
    """Holder, run, since, until, and the command that frees it."""
    reported = held_message(lease_record(lease()), "spikes")

    for named in (THEIRS, "standard-1", "2026-11-21T11:00:00Z", "2026-11-21T13:00:00Z"):
        assert named in reported
    assert "kubectl -n spikes delete lease lagbench" in reported


def test_a_message_about_a_lease_made_by_hand() -> None:
    """It names the holder, and no instant."""
    bare = {"metadata": {"name": "lagbench"}, "spec": {"holderIdentity": "upgrade"}}

    reported = held_message(lease_record(bare), "spikes")

    assert "spikes: upgrade" in reported
    assert not any(sign.isdigit() for sign in reported)


def test_the_longest_run() -> None:
    """Two waits of the load's length, two for the drain, one for settling, and what is around.

    Each wait is tried three times at most, and waits again each time.
    """
    scenario = Scenario.model_validate(
        {
            "name": "calm",
            "description": "steady",
            "partitions": 1,
            "profile": {"kind": "steady", "rate_per_second": 1, "duration_seconds": 90.5},
            "policy": "lag-default",
            "timeouts": {"drain_seconds": 100, "settle_seconds": 50},
        }
    )

    # 91 messages, and at most 270 in a tail: three tries of 0.12 ms each for the accounting
    assert longest_run_seconds(scenario) == 1294 + AROUND_THE_LOAD_SECONDS


def test_actions_make_a_run_longer() -> None:
    """The wait for them counts as often as it is tried."""
    scenario = load_scenario("quick_spike")
    actions = (KillPod(kind="kill_pod", at="lag_drained"),)
    acting = scenario.model_copy(update={"actions": actions})

    added = longest_run_seconds(acting) - longest_run_seconds(scenario)

    assert added == TRIES * actions_seconds(actions, scenario.timeouts.drain_seconds)


def test_the_longest_run_follows_its_messages() -> None:
    """Each million messages adds three tries of two minutes for the accounting."""
    seconds = [
        longest_run_seconds(
            Scenario.model_validate(
                {
                    "name": "calm",
                    "description": "steady",
                    "partitions": 1,
                    "profile": {"kind": "steady", "rate_per_second": rate, "duration_seconds": 100},
                    "policy": "lag-default",
                    "timeouts": {"drain_seconds": 100, "settle_seconds": 80},
                }
            )
        )
        for rate in (2_500, 5_000)
    ]

    assert seconds[1] - seconds[0] == 3 * 120
