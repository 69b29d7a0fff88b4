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
    PodState,
    PodUsage,
    Proposal,
    group_pods,
    parse_pod,
    parse_pod_metrics,
    propose_external_average,
    propose_resource,
    resource_title,
)
from lagbench.core.hpa.hpa_object import HpaSpec, ResourceMetric, parse_hpa
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


@pytest.mark.parametrize(
    ("usage", "wanted"), [(109, 10), (110, 10), (111, 12), (91, 10), (90, 10), (89, 9)]
)
def test_an_average_target_has_a_tolerance_of_a_tenth(usage: int, wanted: int) -> None:
    """Inside it the proposal is status.replicas, outside it is usage over target."""
    found = propose_external_average(
        [usage * 1000], 10_000, status_replicas=10, tolerances=Tolerances()
    )

    assert found.replicas == wanted


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
NOW = 10_000 * SECOND
HALF = ResourceMetric(name="cpu", target_type="Utilization", target_percent=50)


def pod(
    name: str,
    *,
    ready: bool | None = True,
    age: int = 1000,
    changed: int = 0,
    phase: str = "Running",
) -> PodState:
    """Return a pod requesting 1000m that started ``age`` seconds ago."""
    started = NOW - age * SECOND
    return PodState(name, phase, False, started, ready, started + changed * SECOND, 1000)


GOING = PodState("b", "Running", True, 0, True, 0, 1000)


def used(**milli: int) -> dict[str, PodUsage]:
    """Return fresh samples over a window of 15 s."""
    return {name: PodUsage(value, NOW, 15 * SECOND) for name, value in milli.items()}


def propose(
    pods: list[PodState], usage: dict[str, PodUsage], metric: ResourceMetric = HALF
) -> Proposal | MetricFailure:
    """Propose for a target with as many replicas as there are pods."""
    return propose_resource(
        metric, pods, usage, spec_replicas=len(pods), tolerances=Tolerances(), now_ns=NOW
    )


@pytest.mark.parametrize(("milli", "wanted"), [(500, 2), (549, 2), (600, 3), (1000, 4), (200, 1)])
def test_utilisation_is_the_percentage_of_the_request(milli: int, wanted: int) -> None:
    """Two pods at a target of 50 %: within a tenth nothing changes, else it is proportional."""
    result = propose([pod("a"), pod("b")], used(a=milli, b=milli))

    assert isinstance(result, Proposal)
    assert result.replicas == wanted
    assert result.usage_percent == milli // 10


@pytest.mark.parametrize(
    ("pods", "usage", "replicas"),
    [
        # Two idle pods and one without a sample, which counts as full: the count stays.
        ([pod("a"), pod("b"), pod("c")], used(a=100, b=100), 3),
        # One pod at 200 % of the target and one still starting, which counts as idle.
        ([pod("a"), pod("b", ready=False, age=5)], used(a=1000, b=1000), 2),
        # A pod on its way out is left out.
        ([pod("a"), GOING], used(a=1000, b=1), 2),
    ],
)
def test_what_a_pod_without_a_usable_sample_counts_for(
    pods: list[PodState], usage: dict[str, PodUsage], replicas: int
) -> None:
    """It holds back the direction in which the others point."""
    result = propose(pods, usage)

    assert isinstance(result, Proposal)
    assert result.replicas == replicas


@pytest.mark.parametrize(
    ("candidate", "is_unready"),
    [
        (pod("a", age=100, changed=10), False),
        (pod("a", age=100, changed=90), True),
        (pod("a", age=100, ready=False), True),
        (pod("a", age=400, ready=False, changed=10), True),
        (pod("a", age=400, ready=False, changed=200), False),
        (pod("a", ready=None), True),
        (pod("a", phase="Pending"), True),
    ],
    ids=[
        "warm",
        "window too short",
        "young unready",
        "never ready",
        "once ready",
        "no status",
        "pending",
    ],
)
def test_cpu_of_a_starting_pod_does_not_count(candidate: PodState, is_unready: bool) -> None:
    """Within 300 s a sample needs a window of readiness; later a pod must once have been ready."""
    groups = group_pods([candidate], used(a=10), "cpu", NOW)

    assert (groups.unready == {"a"}) == is_unready


def test_what_cannot_be_computed_is_a_failure_with_its_reason() -> None:
    """No pods, no samples and a container without a request are failures; the last is named."""
    bare = PodState("a", "Running", False, 0, True, 0, None, "container main of Pod a")
    results = [propose([], {}), propose([pod("a")], {}), propose([bare], used(a=1))]

    texts = [result.message for result in results if isinstance(result, MetricFailure)]
    assert len(texts) == 3
    assert "cpu in container main of Pod a" in texts[2]


def test_an_average_value_needs_no_request() -> None:
    """A target of 100m per pod with 250m used asks for three pods in place of one."""
    metric = ResourceMetric(name="cpu", target_type="AverageValue", target_milli=100)

    result = propose([pod("a")], used(a=250), metric)

    assert isinstance(result, Proposal)
    assert (result.replicas, result.usage_milli) == (3, 250)


def test_objects_of_the_api_are_read() -> None:
    """A Pod and its PodMetrics become a state and a usage."""
    state = parse_pod(
        {
            "metadata": {"name": "a"},
            "spec": {"containers": [{"resources": {"requests": {"cpu": "250m"}}}]},
            "status": {
                "phase": "Running",
                "startTime": "2026-11-21T10:00:00Z",
                "conditions": [
                    {
                        "type": "Ready",
                        "status": "True",
                        "lastTransitionTime": "2026-11-21T10:00:05Z",
                    }
                ],
            },
        },
        "cpu",
    )
    found = parse_pod_metrics(
        {
            "metadata": {"name": "a"},
            "timestamp": "2026-11-21T10:01:00Z",
            "window": "1m0s",
            "containers": [{"usage": {"cpu": "123456789n"}}],
        },
        "cpu",
    )

    assert (state.request_milli, state.is_ready) == (250, True)
    assert state.ready_changed_at_ns - (state.started_at_ns or 0) == 5 * SECOND
    assert found is not None
    assert (found[1].milli, found[1].window_ns) == (124, 60 * SECOND)


def container(name: str, cpu: str = "", **more: str) -> dict[str, Any]:
    """Return a container of a Pod object; without ``cpu`` it requests none."""
    return {"name": name, "resources": {"requests": {"cpu": cpu} if cpu else {}}, **more}


def pod_object(**spec: Any) -> dict[str, Any]:
    """Return a Pod object named ``a``."""
    return {"metadata": {"name": "a"}, "spec": spec}


def test_a_container_metric_looks_at_one_container_only() -> None:
    """Request and usage are the named container's; a sample without it says nothing of the pod."""
    both = pod_object(containers=[container("main", "100m"), container("proxy")])
    sample = {
        "metadata": {"name": "a", "namespace": "n"},
        "timestamp": "2026-11-21T10:01:00Z",
        "window": "15s",
        "containers": [
            {"name": "main", "usage": {"cpu": "40m"}},
            {"name": "proxy", "usage": {"cpu": "900m"}},
        ],
    }

    found = parse_pod_metrics(sample, "cpu", "main")

    assert parse_pod(both, "cpu", "main").request_milli == 100
    assert parse_pod(both, "cpu").request_milli is None
    assert parse_pod(both, "cpu").requests_nothing == "container proxy of Pod a"
    assert found is not None
    assert found[1].milli == 40
    assert parse_pod_metrics(sample, "cpu", "absent") is None


@pytest.mark.parametrize(
    ("spec", "name", "milli"),
    [
        ({"containers": [container("main", "100m"), container("proxy", "50m")]}, "", 150),
        (
            {
                "containers": [container("main", "100m")],
                "initContainers": [
                    container("proxy", "50m", restartPolicy="Always"),
                    container("migrate", "1"),
                ],
            },
            "",
            150,
        ),
        (
            {
                "containers": [container("main")],
                "initContainers": [container("proxy", "50m", restartPolicy="Always")],
            },
            "proxy",
            50,
        ),
        ({"resources": {"requests": {"cpu": "2"}}, "containers": [container("main")]}, "", 2000),
        (
            {"resources": {"requests": {"cpu": "2"}}, "containers": [container("main", "1")]},
            "main",
            1000,
        ),
    ],
    ids=["sum", "sidecar", "one sidecar", "whole pod", "one container of it"],
)
def test_whose_requests_count(spec: dict[str, Any], name: str, milli: int) -> None:
    """Sidecars count as containers do; a request of the whole pod comes before theirs."""
    assert parse_pod(pod_object(**spec), "cpu", name).request_milli == milli


def test_a_failing_container_metric_is_named_after_the_container() -> None:
    """The reason is that of ContainerResource, and the message names the container."""
    metric = ResourceMetric(
        name="cpu", container="main", target_type="Utilization", target_percent=50
    )

    result = propose([pod("a")], {}, metric)

    assert isinstance(result, MetricFailure)
    assert result.reason == "FailedGetContainerResourceMetric"
    assert "container main" in result.message
    assert resource_title(metric).startswith("cpu container ")
