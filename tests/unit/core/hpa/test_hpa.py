"""One HPA sync: proposals, tolerance, limits, windows, several metrics."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lagbench.core.hpa.controller_flags import (
    SYNC_ANNOTATION,
    TOLERANCE_ANNOTATION,
    controller_flags,
)
from lagbench.core.hpa.hpa_metrics import (
    MetricFailure,
    Proposal,
    propose_external_average,
    propose_external_value,
)
from lagbench.core.hpa.hpa_object import HpaSpec, ScaleEvent, ScaleEvents, parse_hpa
from lagbench.core.hpa.hpa_sync import (
    HpaDecision,
    HpaHistory,
    HpaSettings,
    MetricOutcome,
    Recommendation,
    decide,
    record_change,
    start_history,
    wants_metrics,
)
from lagbench.errors import WrongInput

SECOND = 1_000_000_000

SETTINGS = HpaSettings()

BROKEN = MetricFailure("FailedGetExternalMetric", "no broker")


def spec_of(
    *, behavior: dict[str, Any] | None = None, minimum: int = 1, maximum: int = 100
) -> HpaSpec:
    """Return an HPA with one external metric at 10 per pod."""
    target = {"type": "AverageValue", "averageValue": "10"}
    metric = {"type": "External", "external": {"metric": {"name": "lag"}, "target": target}}
    spec = {
        "scaleTargetRef": {"kind": "Deployment", "name": "w"},
        "minReplicas": minimum,
        "maxReplicas": maximum,
        "metrics": [metric],
        "behavior": behavior,
    }
    return parse_hpa({"spec": spec}, where="test")


class Loop:
    """Syncs one HPA whose target follows at once."""

    def __init__(self, spec: HpaSpec, replicas: int) -> None:
        """Start at ``replicas``."""
        self.spec, self.replicas = spec, replicas
        self.history: HpaHistory | None = None

    def sync(self, wish: int, at_seconds: float) -> int:
        """Sync with a proposal and return the new replicas."""
        now_ns = round(at_seconds * SECOND)
        history = self.history or start_history(self.replicas, now_ns)
        decision = decide_with(self.spec, history, [Proposal(wish, None)], self.replicas, now_ns)
        self.history = record_change(
            self.spec, decision.history, self.replicas, decision.replicas, now_ns
        )
        self.replicas = decision.replicas
        return self.replicas


def decide_with(
    spec: HpaSpec,
    history: HpaHistory,
    results: list[Proposal | MetricFailure],
    replicas: int,
    now_ns: int,
) -> HpaDecision:
    """Decide on results in the order of the metrics."""
    outcomes = [MetricOutcome(f"m{number}", result) for number, result in enumerate(results)]
    return decide(spec, history, outcomes, spec_replicas=replicas, now_ns=now_ns, settings=SETTINGS)


@pytest.mark.parametrize(
    ("usage", "status", "wanted"),
    [
        (100, 10, 10),
        (109, 10, 10),
        (110, 10, 10),
        (111, 10, 12),
        (91, 10, 10),
        (90, 10, 10),
        (89, 10, 9),
        (11, 1, 1),
        (12, 1, 2),
        (0, 3, 0),
        (39, 1, 4),
        (25, 0, 3),
    ],
)
def test_an_average_target_has_a_tolerance_of_a_tenth(usage: int, status: int, wanted: int) -> None:
    """Inside the tolerance the proposal is status.replicas, outside it is usage over target."""
    proposal = propose_external_average(
        [usage * 1000], 10_000, status_replicas=status, tolerance=0.1
    )

    assert proposal.replicas == wanted


def test_a_value_target_multiplies_the_ready_pods() -> None:
    """Usage 25 at target 10 with 3 ready of 4 pods asks for 8."""
    proposal = propose_external_value(
        [25_000], 10_000, spec_replicas=4, ready_pods=3, tolerance=0.1
    )

    assert proposal.replicas == 8


def test_without_behavior_replicas_at_most_double_or_reach_four() -> None:
    """A wish of 20 takes 1 to 4, 8, 16, 20."""
    loop = Loop(spec_of(), 1)

    assert [loop.sync(20, 15.0 * step) for step in range(4)] == [4, 8, 16, 20]


def test_without_behavior_the_peak_holds_for_the_whole_window() -> None:
    """20 stays until the last wish for it is more than 300 s old, then goes at once."""
    loop = Loop(spec_of(), 20)
    loop.sync(20, 0)

    held = [loop.sync(5, 15.0 * step) for step in range(1, 21)]

    assert held == [20] * 20
    assert loop.sync(5, 315) == 5


DEFAULTS: dict[str, Any] = {"scaleDown": {"stabilizationWindowSeconds": 0}}


def test_default_behavior_doubles_each_period_but_not_within_it() -> None:
    """10 goes to 20; at 14.9 s the period's budget is spent; at exactly 15 s it is free again."""
    early, exact = Loop(spec_of(behavior=DEFAULTS), 10), Loop(spec_of(behavior=DEFAULTS), 10)

    assert [early.sync(100, 0), early.sync(100, 14.9)] == [20, 20]
    assert [exact.sync(100, 0), exact.sync(100, 15)] == [20, 40]


def one_way(side: str, select: str, *policies: tuple[str, int, int]) -> dict[str, Any]:
    """Return a behavior without windows and with these policies on one side."""
    listed = [{"type": kind, "value": v, "periodSeconds": p} for kind, v, p in policies]
    rules = {"policies": listed, "selectPolicy": select, "stabilizationWindowSeconds": 0}
    return {side: rules}


def test_one_pod_a_minute_is_one_pod_a_minute() -> None:
    """Down by Pods 1/60 from 10: 9 for a minute, then 8."""
    loop = Loop(spec_of(behavior=one_way("scaleDown", "Max", ("Pods", 1, 60))), 10)

    assert [loop.sync(2, at) for at in (0, 15, 30, 45, 60)] == [9, 9, 9, 9, 8]


@pytest.mark.parametrize(
    ("side", "select", "policies", "replicas", "wanted"),
    [
        ("scaleDown", "Max", [("Percent", 50, 60)], 9, 4),
        ("scaleUp", "Max", [("Percent", 10, 60)], 3, 4),
        ("scaleUp", "Min", [("Pods", 4, 60), ("Percent", 100, 60)], 3, 6),
        ("scaleDown", "Max", [("Pods", 4, 60), ("Percent", 10, 60)], 80, 72),
        ("scaleDown", "Min", [("Pods", 4, 60), ("Percent", 10, 60)], 80, 76),
        ("scaleDown", "Disabled", [("Pods", 4, 60)], 80, 80),
        ("scaleUp", "Disabled", [("Pods", 4, 60)], 8, 8),
    ],
)
def test_policies_are_combined_by_select_policy(
    side: str, select: str, policies: list[Any], replicas: int, wanted: int
) -> None:
    """Max is the largest change, Min the smallest; Disabled allows none."""
    loop = Loop(spec_of(behavior=one_way(side, select, *policies)), replicas)

    assert loop.sync(1 if side == "scaleDown" else 100, 1000) == wanted


def test_the_scale_up_window_takes_the_lowest_recent_wish() -> None:
    """Window 60 with 5 and 8 remembered: a wish of 12 gives 5, and says so."""
    spec = spec_of(behavior={"scaleUp": {"stabilizationWindowSeconds": 60}})
    past = (Recommendation(5, -50 * SECOND), Recommendation(8, -20 * SECOND))

    decision = decide_with(spec, HpaHistory(past), [Proposal(12, None)], 4, 0)

    assert decision.replicas == 5
    assert [c.reason for c in decision.conditions][1] == "ScaleUpStabilized"


def test_changes_of_the_other_direction_give_budget_back() -> None:
    """What was added within the period is counted against the start when scaling down."""
    behavior = {**one_way("scaleDown", "Max", ("Pods", 1, 60))}
    events = ScaleEvents(ups=(ScaleEvent(4, 0),))

    decision = decide_with(
        spec_of(behavior=behavior),
        HpaHistory(events=events),
        [Proposal(1, None)],
        10,
        30 * SECOND,
    )

    assert decision.replicas == 5


def test_outside_the_bounds_no_metric_is_read() -> None:
    """Zero replicas, too many and too few are settled without a metric or a limit."""
    spec = spec_of(minimum=2, maximum=5)

    results = [decide_with(spec, HpaHistory(), [], count, 0).replicas for count in (0, 1, 40)]

    assert results == [0, 2, 5]
    assert [wants_metrics(spec, count) for count in (0, 1, 2, 5, 6)] == [
        *(False, False, True, True, False)
    ]


def test_a_failing_metric_blocks_scaling_down_but_not_up() -> None:
    """With one of two metrics unreadable the other can add pods; removing needs both."""
    spec = spec_of()
    up = decide_with(spec, HpaHistory(), [BROKEN, Proposal(6, None)], 4, 0)
    down = decide_with(spec, HpaHistory(), [BROKEN, Proposal(2, None)], 4, 0)
    none = decide_with(spec, HpaHistory(), [BROKEN, BROKEN], 4, 0)

    assert (up.replicas, up.proposal) == (6, 6)
    assert (down.replicas, down.proposal) == (4, None)
    assert (none.replicas, none.conditions[0].reason) == (4, "FailedGetExternalMetric")
    assert "2 invalid out of 2" in none.error
    assert "m1" in up.reason


def test_the_highest_of_several_metrics_wins() -> None:
    """Each metric proposes; the largest proposal counts."""
    decision = decide_with(
        spec_of(), HpaHistory(), [Proposal(3, None), Proposal(7, None), Proposal(5, None)], 4, 0
    )

    assert decision.proposal == 7
    assert "m1" in decision.reason


behaviors = st.none() | st.fixed_dictionaries(
    {
        side: st.fixed_dictionaries(
            {
                "stabilizationWindowSeconds": st.sampled_from([0, 15, 60, 300]),
                "selectPolicy": st.sampled_from(["Max", "Min", "Disabled"]),
                "policies": st.lists(
                    st.fixed_dictionaries(
                        {
                            "type": st.sampled_from(["Pods", "Percent"]),
                            "value": st.integers(1, 100),
                            "periodSeconds": st.sampled_from([15, 30, 60]),
                        }
                    ),
                    min_size=1,
                    max_size=2,
                ),
            }
        )
        for side in ("scaleUp", "scaleDown")
    }
)


@given(
    behavior=behaviors,
    start=st.integers(2, 20),
    wishes=st.lists(st.integers(0, 60), min_size=1, max_size=40),
)
def test_replicas_never_leave_the_bounds(
    behavior: dict[str, Any] | None, start: int, wishes: list[int]
) -> None:
    """Whatever is wished and whatever the policies, replicas stay within min and max."""
    loop = Loop(spec_of(behavior=behavior, minimum=2, maximum=20), start)

    for number, wish in enumerate(wishes):
        assert 2 <= loop.sync(wish, 15.0 * number) <= 20


@given(replicas=st.integers(1, 50), share=st.floats(0.901, 1.099))
def test_within_the_tolerance_nothing_changes(replicas: int, share: float) -> None:
    """Usage within a tenth of the target leaves the replicas as they are."""
    usage = round(10_000 * replicas * share)
    proposal = propose_external_average([usage], 10_000, status_replicas=replicas, tolerance=0.1)

    loop = Loop(spec_of(), replicas)

    assert loop.sync(proposal.replicas, 0) == replicas


@given(wishes=st.lists(st.integers(0, 60), min_size=2, max_size=40), behavior=behaviors)
def test_a_step_never_goes_against_the_wish(
    wishes: list[int], behavior: dict[str, Any] | None
) -> None:
    """Replicas rise only while the highest proposal of the past is above them."""
    loop = Loop(spec_of(behavior=behavior), wishes[0] or 1)
    seen = [loop.replicas]

    for number, wish in enumerate(wishes):
        before = loop.replicas
        seen.append(wish)
        after = loop.sync(wish, 15.0 * number)
        assert after <= max(before, *seen)
        assert after >= min(before, *seen) or after == loop.spec.min_replicas


def flags(**annotations: str) -> object:
    """Return the flags of an object with these annotations."""
    names = {"sync": SYNC_ANNOTATION, "tolerance": TOLERANCE_ANNOTATION}
    found = {names[key]: value for key, value in annotations.items()}
    return controller_flags({"metadata": {"annotations": found}}, where="policy")


def test_without_annotations_those_of_kubernetes_are_in_force() -> None:
    """15 s and 10 %, also without any metadata."""
    found = controller_flags({}, where="policy")

    assert not found.are_set
    assert (found.sync_seconds_in_force, found.tolerance_in_force) == (15.0, 0.1)


def test_an_object_sets_its_own() -> None:
    """A tolerance of 0 is a value, and not the lack of one."""
    found = controller_flags(
        {"metadata": {"annotations": {SYNC_ANNOTATION: "5", TOLERANCE_ANNOTATION: "0"}}},
        where="policy",
    )

    assert found.are_set
    assert (found.sync_seconds_in_force, found.tolerance_in_force) == (5.0, 0.0)


@pytest.mark.parametrize(
    "wrong",
    [{"sync": "4"}, {"sync": "soon"}, {"sync": "0"}, {"tolerance": "1"}, {"tolerance": "-0.1"}],
)
def test_a_wrong_value_is_named(wrong: dict[str, str]) -> None:
    """A sync that does not divide 15 s would move the phase of the run."""
    with pytest.raises(WrongInput) as refused:
        flags(**wrong)

    assert "lagbench.io/hpa-" in refused.value.field
    assert refused.value.value == next(iter(wrong.values()))
