"""What an HPA makes of the CPU of pods, and what it reads of them."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.core.hpa.test_hpa import SECOND

from lagbench.core.hpa.controller_flags import (
    Tolerances,
)
from lagbench.core.hpa.hpa_metrics import (
    MetricFailure,
    PodState,
    PodUsage,
    Proposal,
    group_pods,
    parse_pod,
    parse_pod_metrics,
    propose_resource,
    resource_title,
)
from lagbench.core.hpa.hpa_object import ResourceMetric

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
