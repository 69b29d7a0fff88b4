"""SLOs on what the autoscaler did: flips, pods paid for, pods without partitions."""

from __future__ import annotations

import re
from typing import Any

import pytest
from tests.fakes.measured_run import changed, quick_spike_measures, result

from lagbench.core.measures.evidence.observed_group import Observation
from lagbench.core.measures.measures import Measures
from lagbench.core.measures.rate_dip import NOTHING_TO_DO
from lagbench.core.scenario.slo_limits import Slos
from lagbench.core.verdict.slo import SloResult
from lagbench.core.verdict.slos import slo_results
from lagbench.core.verdict.verdict import judge

GOOD = quick_spike_measures()
SLOS = Slos(drain_seconds=120)


def test_flips_of_both_causes_count_and_the_first_is_said() -> None:
    """A flip that follows the load is a flip too; how many are self-made is said."""
    scaling = {"flips": 3, "self_made_flips": 2, "load_following_flips": 1}
    changes = tuple(c.model_copy(update={"is_flip": True}) for c in GOOD.scaling.changes[:3])

    found = result(judge(changed("scaling", changes=changes, **scaling), SLOS), "flips")

    assert (found.status, found.value) == ("fail", 3)
    assert "+14.3 s: 2 to 6 by hpa" in found.reason
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


def test_an_open_cron_trigger_is_named_where_it_leaves_the_floor() -> None:
    """It raises the replicas before the spike, which is what it is for."""
    began_at = GOOD.load.first_spike_started_at or 0
    by_cron = {"at": began_at - 1, "reason": "external metric s1-cron-UTC-1-2 above target"}
    changes = (GOOD.scaling.changes[0].model_copy(update=by_cron),)
    for fields, is_named in (({"changes": changes}, True), ({}, False)):
        run = changed("scaling", baseline_at_floor=False, **fields)
        found = result(judge(run, SLOS), "baseline_at_floor")
        assert ("slos.baseline_at_floor: false" in found.reason) is is_named


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


SPIKE = quick_spike_measures()


def with_steps(*updates: dict[str, Any]) -> Measures:
    """Return the run with its first scale steps changed."""
    first, *steps = SPIKE.rebalances.episodes
    found = [step.model_copy(update=update) for step, update in zip(steps, updates, strict=False)]
    return changed("rebalances", episodes=(first, *found, *steps[len(found) :]))


def judged(run: Measures, name: str, **limits: Any) -> SloResult:
    """Return one SLO's result."""
    return next(slo for slo in slo_results(run, Slos(**limits)) if slo.name == name)


DIP, AREA, STANDS = "rebalance_dip_percent", "rebalance_area_seconds", "standstill_seconds"


@pytest.mark.parametrize(
    ("depth", "noise", "status"),
    [
        (19.0, 30.0, "pass"),
        (30.0, 2.0, "fail"),
        (30.0, 15.0, "undetermined"),
        (30.0, None, "undetermined"),
    ],
)
def test_a_dip_is_judged_within_what_noise_reads(
    depth: float, noise: float | None, status: str
) -> None:
    """The truth lies between the depth less the noise and the depth itself; the limit is 20 %."""
    found = judged(with_steps({"dip_percent": depth, "dip_noise_percent": noise}), DIP)

    assert found.status == status
    assert found.high == depth


def test_a_step_that_fails_for_sure_outranks_a_deeper_one_that_only_may() -> None:
    """60 % with 50 % of noise may be 10 %; 30 % with 2 % is none below 28 %."""
    noisy = {"dip_percent": 60.0, "dip_noise_percent": 50.0}
    sure = {"dip_percent": 30.0, "dip_noise_percent": 2.0}

    found = judged(with_steps(noisy, sure), DIP)

    assert (found.status, found.value) == ("fail", 30.0)


def test_the_area_is_judged() -> None:
    """1.3 s of the expected rate, limit 1.0 s; the reason says how many messages that was."""
    run = with_steps({"area_seconds": 1.3, "area_noise_seconds": 0.1, "dip_area_messages": 1300.0})

    found = judged(run, AREA)

    assert (found.status, found.value) == ("fail", 1.3)
    assert "1,300" in found.reason


def test_the_short_window_stands_beside_the_depth() -> None:
    """What 0.2 s show, and what they show where nothing happens."""
    run = with_steps(
        {"dip_percent": 18.0, "short_dip_percent": 90.0, "short_dip_noise_percent": 6.0}
    )

    assert re.findall(r"90 %|6 %", judged(run, DIP).reason) == ["90 %", "6 %"]


START_ALONE = SPIKE.rebalances.episodes[:1]


@pytest.mark.parametrize(
    ("scaling", "status"),
    [
        ({"changes": (), "max_replicas": 2, "gaps_text": ""}, "not_judged"),  # provably stayed
        ({"changes": (), "max_replicas": 2, "gaps_text": "40 s"}, "undetermined"),
        ({"changes": (), "max_replicas": None}, "undetermined"),  # no sample
        # The group had more members than were ever wanted.
        ({"changes": (), "max_replicas": 1, "gaps_text": ""}, "undetermined"),
    ],
)
def test_without_a_step_the_replicas_must_be_known_to_have_stayed(
    scaling: dict[str, Any], status: str
) -> None:
    """A run in which the group only started."""
    run = changed("scaling", changed("rebalances", episodes=START_ALONE), **scaling)

    assert judged(run, DIP).status == status


def test_a_step_under_load_without_a_rebalance_is_undetermined() -> None:
    """The replicas changed, the group had work and nobody was seen to come or go."""
    run = changed("rebalances", unanswered_step_ats=(SPIKE.load.stream_started_at or 0,))

    assert judged(run, DIP).status == judged(run, AREA).status == "undetermined"


def test_steps_that_all_met_an_idle_group_are_not_judged() -> None:
    """They had nothing to lose, and the reason counts them."""
    idle = {"dip_percent": None, "recovery_seconds": None, "reason": NOTHING_TO_DO}

    found = judged(with_steps(*[idle] * 5), DIP)

    assert (found.status, found.reason.split()[0]) == ("not_judged", "5")


def stands(seconds: float, *, message_seconds: float = 0.002) -> Measures:
    """Return the run with a standstill."""
    return changed(
        "standstill",
        group_seconds=seconds,
        group_low_seconds=seconds,
        group_high_seconds=seconds + 0.2,
        group_started_at=SPIKE.load.stream_started_at,
        message_seconds=message_seconds,
    )


@pytest.mark.parametrize(
    ("seconds", "message_seconds", "status", "limit"),
    [
        (20.0, 0.002, "fail", 5),
        (4.0, 0.002, "pass", 5),
        (4.9, 0.002, "undetermined", 5),  # a bin more or less is not known
        (10.0, 4.0, "pass", 12),  # three messages may be on their way
    ],
)
def test_a_standstill_is_judged_whatever_set_it_off(
    seconds: float, message_seconds: float, status: str, limit: float
) -> None:
    """The limit is 5 s, and at least three messages."""
    found = judged(stands(seconds, message_seconds=message_seconds), STANDS)

    assert (found.status, found.limit) == (status, limit)
    assert judged(SPIKE.model_copy(update={"standstill": None}), STANDS).status == "undetermined"


RECOVERY = "rebalance_recovery_seconds"


def test_a_recovery_that_is_late_for_sure_outranks_a_slower_one_that_only_may_be() -> None:
    """A dip that is all noise needed no recovery; the other one took 10 s, and 5 are allowed."""
    noisy = {"recovery_seconds": 20.0, "dip_percent": 19.0, "dip_noise_percent": 18.0}
    sure = {"recovery_seconds": 10.0, "dip_percent": 15.0, "dip_noise_percent": 2.0}

    found = judged(with_steps(noisy, sure), RECOVERY)

    assert (found.status, found.value) == ("fail", 10.0)


def test_a_step_that_surely_did_not_recover_outranks_one_that_nobody_measured() -> None:
    """The first was watched for a second; the second for 9 s, and its rate stayed down."""
    open_step = {"recovery_seconds": None, "dip_percent": 40.0, "dip_noise_percent": 2.0}
    short = {**open_step, "observed_seconds": 1.0, "reason": "the next step came"}
    late = {**open_step, "observed_seconds": 9.0, "reason": "it stayed down"}

    found = judged(with_steps(short, late), RECOVERY)

    assert found.status == "fail"
    assert "9.0 s" in found.reason
