"""SLOs on what the autoscaler did: flips, pods paid for, pods without partitions."""

from typing import Any

import pytest
from tests.fakes.measured_run import changed, quick_spike_measures, result

from lagbench.core.measures.evidence.observation import Observation
from lagbench.core.scenario.scenario import Slos
from lagbench.core.verdict.slos import slo_results
from lagbench.core.verdict.verdict import judge

GOOD = quick_spike_measures()
SLOS = Slos(drain_seconds=120)


def test_flips_name_the_first() -> None:
    """Two flips; the first is said."""
    changes = tuple(c.model_copy(update={"is_flip": True}) for c in GOOD.scaling.changes[:2])

    found = result(judge(changed("scaling", flips=2, changes=changes), SLOS), "flips")

    assert (found.status, found.value) == ("fail", 2)
    assert "+34.3 s: 2 to 6 by hpa" in found.reason


def test_flips_of_both_causes_count_and_the_self_made_ones_are_said() -> None:
    """A flip that follows the load is a flip too."""
    scaling = {"flips": 3, "self_made_flips": 2, "load_following_flips": 1}
    changes = tuple(c.model_copy(update={"is_flip": True}) for c in GOOD.scaling.changes[:3])

    found = result(judge(changed("scaling", changes=changes, **scaling), SLOS), "flips")

    assert (found.status, found.value) == ("fail", 3)
    assert "2 of 3" in found.reason


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({"pod_minutes": 6.0}, "pass"),
        ({"pod_minutes": 6.1}, "fail"),
        ({"pod_minutes": None, "seen_pod_minutes": None}, "undetermined"),
        ({"pod_minutes": None, "seen_pod_minutes": 6.0}, "undetermined"),
        ({"pod_minutes": None, "seen_pod_minutes": 6.1}, "fail"),
        ({"pod_minutes": 6.0, "gaps_text": "9 s"}, "undetermined"),
        ({"pod_minutes": 6.1, "gaps_text": "9 s"}, "fail"),
    ],
)
def test_the_cost_in_pods_is_judged(fields: dict[str, Any], status: str) -> None:
    """Pod-minutes above the limit fail; replicas that nobody saw may have cost more."""
    found = result(judge(changed("scaling", **fields), Slos(pod_minutes=6)), "pod_minutes")

    assert (found.status, found.limit) == (status, 6)


FEW = {"max_members": 12, "surplus_pods_idle": None}


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({"max_members": 20, "members_beyond": 8, "surplus_pods_idle": True}, "pass"),
        ({"max_members": 20, "members_beyond": 8, "surplus_pods_idle": False}, "fail"),
        ({"max_members": 20, "members_beyond": 8, "surplus_pods_idle": None}, "undetermined"),
        ({"max_members": None, "surplus_pods_idle": None}, "undetermined"),
        ({"max_members": 12, "surplus_pods_idle": None}, "not_judged"),
        ({"max_members": 20, "members_beyond": 0, "surplus_pods_idle": None}, "not_judged"),
        (
            {**FEW, "max_group_members": 13, "group_members_beyond": 1},
            "undetermined",
        ),  # the broker counted more
        ({**FEW, "ceiling_replicas": 20, "gaps_text": "9 s"}, "undetermined"),
        ({**FEW, "ceiling_replicas": 20, "max_replicas": None}, "undetermined"),
        ({**FEW, "ceiling_replicas": 20, "max_replicas": 13, "replicas_beyond": 1}, "undetermined"),
        ({**FEW, "ceiling_replicas": 20, "max_replicas": 12}, "not_judged"),
        ({**FEW, "ceiling_replicas": 20, "max_replicas": 13, "replicas_beyond": 0}, "not_judged"),
    ],
)
def test_surplus_pods(fields: dict[str, Any], status: str) -> None:
    """Judged only when there were more members than partitions."""
    assert result(judge(changed("scaling", **fields), SLOS), "surplus_pods_idle").status == status


def test_flips_that_nobody_could_see_never_pass() -> None:
    """None seen is undetermined with the gap as its reason; too many seen still fail."""
    gap = "301.0 s"
    limit = SLOS.flips or 0

    with_gap = result(judge(changed("scaling", gaps_text=gap), SLOS), "flips")
    seen = result(judge(changed("scaling", gaps_text=gap, flips=limit + 1), SLOS), "flips")

    assert (with_gap.status, seen.status) == ("undetermined", "fail")
    assert gap in with_gap.reason


@pytest.mark.parametrize(
    ("name", "fields", "status"),
    [
        ("reaction_seconds", {}, "undetermined"),
        ("drain_seconds", {}, "undetermined"),
        ("lag_falls_at_full_parallelism", {}, "undetermined"),
        ("flips", {"flips": 1}, "undetermined"),  # it may be the return from a spike
        ("flips", {"flips": 2}, "fail"),
        ("baseline_at_floor", {"baseline_at_floor": False}, "undetermined"),
        ("baseline_at_floor", {"has_baseline": False}, "not_judged"),
    ],
)
def test_where_nobody_knows_the_spikes_no_slo_blames_them(
    name: str, fields: dict[str, Any], status: str
) -> None:
    """The rate of one pod of an observed group is unknown: its load may have had a spike."""
    none = {"spikes": 0, "first_spike_started_at": None, "last_spike_ended_at": None}
    run = changed(
        "drain", changed("load", changed("scaling", **fields), **none), spike_ended_at=None
    )
    run = run.model_copy(update={"observation": Observation(group="shop", topic="orders")})
    slos = {result.name: result for result in slo_results(run, SLOS)}

    assert slos[name].status == status
