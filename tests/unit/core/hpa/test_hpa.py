"""One HPA sync beyond the recorded ones: failing metrics, flags, and CPU of pods."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lagbench.core.hpa.controller_flags import (
    DEFAULT_KUBERNETES,
    GATES,
    KUBERNETES_ANNOTATION,
    KUBERNETES_VERSIONS,
    SYNC_ANNOTATION,
    TOLERANCE_ANNOTATION,
    ControllerFlags,
    Tolerances,
    controller_flags,
    followed_version,
)
from lagbench.core.hpa.hpa_metrics import (
    MetricFailure,
    Proposal,
    propose_external_average,
)
from lagbench.core.hpa.hpa_object import HpaSpec, parse_hpa
from lagbench.core.hpa.hpa_sync import (
    HpaDecision,
    HpaHistory,
    HpaSettings,
    MetricOutcome,
    decide,
    record_change,
    scaled_to_zero,
    start_history,
    wants_metrics,
)
from lagbench.errors import WrongInput

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


def test_outside_the_bounds_no_metric_is_read() -> None:
    """Zero replicas, too many and too few are settled without a metric or a limit."""
    spec = spec_of(minimum=2, maximum=5)
    counts = (0, 1, 2, 5, 6)

    found = [decide_with(spec, HpaHistory(), [], count, 0).replicas for count in (0, 1, 40)]

    assert found == [0, 2, 5]
    assert decide_with(spec, HpaHistory(), [Proposal(1, None)], 4, 0).replicas == 2
    assert [wants_metrics(spec, count) for count in counts] == [False, False, True, True, False]


def test_a_failing_metric_blocks_scaling_down_but_not_up() -> None:
    """With one of two metrics unreadable the other can add pods; removing needs both."""
    up, down, none, highest = (
        decide_with(spec_of(), HpaHistory(), list(results), 4, 0)
        for results in (
            (BROKEN, Proposal(6, None)),
            (BROKEN, Proposal(2, None)),
            (BROKEN, BROKEN),
            (Proposal(3, None), Proposal(7, None), Proposal(5, None)),
        )
    )

    assert (up.replicas, up.proposal) == (6, 6)
    assert (down.replicas, down.proposal) == (4, None)
    assert (none.replicas, none.conditions[0].reason) == (4, "FailedGetExternalMetric")
    assert "2 invalid out of 2" in none.error
    assert highest.proposal == 7
    assert "m1" in highest.reason


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
def test_replicas_never_leave_the_bounds_nor_go_against_the_wishes(
    behavior: dict[str, Any] | None, start: int, wishes: list[int]
) -> None:
    """Whatever is wished and whatever the policies, a step lies between the wishes so far."""
    spec, replicas, seen = spec_of(behavior=behavior, minimum=2, maximum=20), start, {start}
    history = start_history(start, 0)
    for number, wish in enumerate(wishes):
        now_ns = 15 * number * SECOND
        decision = decide_with(spec, history, [Proposal(wish, None)], replicas, now_ns)
        history = record_change(spec, decision.history, replicas, decision.replicas, now_ns)
        replicas = decision.replicas
        seen.add(min(max(wish, 2), 20))

        assert min(seen) <= replicas <= max(seen)


@pytest.mark.parametrize(
    ("annotations", "sync", "tolerance"),
    [
        ({}, 15, 0.1),
        ({SYNC_ANNOTATION: "5", TOLERANCE_ANNOTATION: "0"}, 5, 0),
        ({SYNC_ANNOTATION: "4"}, None, None),  # would move the phase of the run
        ({SYNC_ANNOTATION: "soon"}, None, None),
        ({SYNC_ANNOTATION: "0"}, None, None),
        ({TOLERANCE_ANNOTATION: "1"}, None, None),
        ({TOLERANCE_ANNOTATION: "-0.1"}, None, None),
        ({KUBERNETES_ANNOTATION: "1.37"}, 15, 0.1),
        ({KUBERNETES_ANNOTATION: "1.33"}, None, None),
    ],
)
def test_an_object_sets_flags_of_the_controller_for_itself(
    annotations: dict[str, str], sync: float | None, tolerance: float | None
) -> None:
    """Without annotations those of Kubernetes are in force; a wrong value is named."""
    manifest = {"metadata": {"annotations": annotations}}
    if sync is not None:
        found = controller_flags(manifest, where="policy")
        assert (found.sync_seconds_in_force, found.tolerances(None).up) == (sync, tolerance)
        return
    with pytest.raises(WrongInput) as refused:
        controller_flags(manifest, where="policy")
    ((name, value),) = annotations.items()
    assert (refused.value.field, refused.value.value) == (f"metadata.annotations[{name}]", value)


def test_each_gate_is_on_from_its_version_on() -> None:
    """As kube_features.go of 1.37 has them; the default is followed where nothing is said."""
    said = [*({KUBERNETES_ANNOTATION: version} for version in KUBERNETES_VERSIONS), {}]
    found = [controller_flags({"metadata": {"annotations": one}}, where="policy") for one in said]

    assert {name: [one.has_gate(name) for one in found].index(True) for name in GATES} == {
        "HPAConfigurableTolerance": 1,
        "HPAGeneration": 3,
        "HPAScaleToZero": 3,
    }
    assert found[-1].version == DEFAULT_KUBERNETES


@pytest.mark.parametrize(
    ("git_version", "followed"),
    [
        ("v1.34.4", "1.34"),
        ("v1.36.2-gke.100", "1.36"),
        ("v1.37.0-rc.1", "1.37"),
        ("v1.29.9", "1.34"),
        ("v1.40.1+k3s1", "1.37"),
        ("v2.0.0", "1.37"),
        ("unknown", "1.34"),
    ],
)
def test_a_cluster_is_followed_by_the_nearest_version(git_version: str, followed: str) -> None:
    """One that is newer than the newest behaves like it, and one that is older likewise."""
    assert followed_version(git_version) == followed


@pytest.mark.parametrize(
    ("version", "up", "down", "wanted"),
    [
        (None, "0.05", None, (0.05, 0.1)),
        ("1.34", "0.05", "0", (0.1, 0.1)),
        ("1.35", "50m", "0", (0.05, 0.0)),
        ("1.37", None, "500u", (0.1, 0.0005)),
    ],
)
def test_behavior_has_a_tolerance_for_each_direction_from_1_35_on(
    version: str | None, up: str | None, down: str | None, wanted: tuple[float, float]
) -> None:
    """They are quantities, and their edges belong to them: tolerancesForHpa and isWithin."""
    spec = spec_of(behavior={"scaleUp": {"tolerance": up}, "scaleDown": {"tolerance": down}})
    found = ControllerFlags(kubernetes=version).tolerances(spec.behavior)

    assert (found.up, found.down) == wanted
    edges = [1 + found.up, 1 + found.up + 1e-6, 1 - found.down, 1 - found.down - 1e-6]
    assert [found.is_within(ratio) for ratio in edges] == [True, False, True, False]


@pytest.mark.parametrize(
    ("minimum", "replicas", "is_zero", "usage", "wanted", "condition"),
    [
        (0, 2, False, 0, 0, "True:ScaledToZero"),
        (0, 0, True, 25, 3, "False:NotScaledToZero"),
        (2, 0, True, 0, 2, "False:NotScaledToZero"),  # minReplicas was raised meanwhile
        (0, 0, False, 25, 0, ""),  # a person did it: the HPA is paused
        (1, 0, False, 25, 0, ""),
    ],
)
def test_an_hpa_comes_back_from_the_zero_to_which_it_went(
    minimum: int, replicas: int, usage: int, wanted: int, condition: str, *, is_zero: bool
) -> None:
    """Metrics are read at zero replicas while ScaledToZero is True (HPAScaleToZero, 1.37)."""
    spec = spec_of(minimum=minimum, behavior={"scaleDown": {"stabilizationWindowSeconds": 0}})
    outcomes = []
    if wants_metrics(spec, replicas, is_scaled_to_zero=is_zero):
        proposal = propose_external_average(
            [usage * 1000], 10_000, status_replicas=replicas, tolerances=Tolerances()
        )
        outcomes = [MetricOutcome("lag", proposal)]
    decision = decide(
        spec,
        start_history(replicas, 0),
        outcomes,
        spec_replicas=replicas,
        now_ns=15 * 10**9,
        settings=SETTINGS,
        is_scaled_to_zero=is_zero,
    )

    assert decision.replicas == wanted
    shown = scaled_to_zero(spec, replicas, wanted)
    assert (f"{shown.status}:{shown.reason}" if wanted != replicas else "") == condition


SECOND = 1_000_000_000
