"""Baseline, flips and what was judged, in recorded runs that were tampered with."""

from __future__ import annotations

import pytest
from tests.fakes.tampered_run import SECOND, Row, TamperedRun, slo


def test_a_policy_that_goes_to_zero_has_its_floor_at_one_under_load(run: TamperedRun) -> None:
    """KEDA must hold one replica while there is anything to do."""

    def edit(policy: Row) -> Row:
        policy["spec"]["minReplicaCount"] = 0
        return policy

    run.edit_yaml("policy.yaml", edit)

    assert slo(run.judge_beyond_doubt(), "baseline_at_floor").status == "pass"


def test_a_load_that_begins_with_its_spike_has_no_baseline(run: TamperedRun) -> None:
    """The plan has no period before it, so there is nothing to judge."""
    points = [
        {"second": 0, "rate_per_second": 150, "is_spike": True},
        {"second": 8, "rate_per_second": 1500, "is_spike": True},
        {"second": 18, "rate_per_second": 150, "is_spike": False},
        {"second": 22, "rate_per_second": 0, "is_spike": False},
    ]
    run.set_scenario(profile={"kind": "trace", "file": "t.csv", "points": points})

    assert slo(run.judge(), "baseline_at_floor").status == "not_judged"


def test_pod_minutes_are_of_the_planned_window(run: TamperedRun) -> None:
    """22 s of the stream; the rest stands beside it, and cannot dilute it."""
    before = run.measure().scaling
    run.edit_records(
        lambda r: {**r, "at": r["at"] + 600 * SECOND} if r.get("name") == "fence_run" else r,
        "phase",
    )
    after = run.measure().scaling

    assert before.pod_minutes == pytest.approx(0.98, abs=0.01)
    assert (after.pod_minutes, after.idle_ratio) == (before.pod_minutes, before.idle_ratio)
    assert before.pod_minutes_after == pytest.approx(1.67, abs=0.01)
