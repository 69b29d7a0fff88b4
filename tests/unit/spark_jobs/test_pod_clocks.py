"""The pods' clocks: Spark's rule is the core's."""

from __future__ import annotations

import msgspec
import numpy as np

from lagbench.core.measures.evidence.clocks import clock_set
from lagbench.core.telemetry.records import ClockOffset, PodSeen, TelemetryRecord
from lagbench_spark.pod_clocks import ONE_CLOCK, PodClock, PodClocks, pod_clocks

MILLISECOND = 1_000_000


def offset(at: int, node: int, low: int, high: int, *, since_at: int) -> ClockOffset:
    """Return what the recorder says of a clock."""
    return ClockOffset(
        at=at,
        source="recorder",
        clock=f"node-{node}",
        pods=[f"pod-{node}"],
        low_ns=low,
        high_ns=high,
        answers=3,
        since_at=since_at,
    )


def test_the_rule_is_that_of_the_core() -> None:
    """For fifty sets of periods, shift and error of every pod are the same."""
    generator = np.random.default_rng(4)
    for _ in range(50):
        records: list[TelemetryRecord] = []
        for at in range(12):
            node = int(generator.integers(0, 3))
            low = int(generator.integers(-400, 400)) * MILLISECOND
            width = int(generator.integers(1, 300)) * MILLISECOND
            since_at = int(generator.integers(0, 2))
            records.append(offset(at, node, low, low + width, since_at=since_at))
        expected = clock_set(records, "kubernetes")

        found = pod_clocks([msgspec.to_builtins(record) for record in records], "kubernetes")

        for pod in ("pod-0", "pod-1", "pod-2", "pod-3"):
            known = expected.of_pod(pod)
            clock = None if known is None else PodClock(known.shift_ns, known.error_ns)
            assert found.of(pod) == clock
        assert found.shifts == expected.shifts


def test_one_machine_has_one_clock() -> None:
    """Whatever was recorded: nothing is shifted and nothing is in doubt."""
    assert pod_clocks([], "processes") is ONE_CLOCK
    assert ONE_CLOCK.of("any") == PodClock(0, 0)
    assert ONE_CLOCK.on_recorders(5, "any") == 5


def test_a_clock_that_nobody_asked_is_not_one_without_offset() -> None:
    """On a cluster a pod of an unknown node has no bound."""
    found = pod_clocks([], "kubernetes")

    assert found.of("any") is None
    assert found.on_recorders(5, "any") == 5


def test_a_pod_that_came_and_went_between_two_answers_has_its_nodes_clock() -> None:
    """The object names the node: that is enough, for Spark and for the core; no node is none."""
    records: list[TelemetryRecord] = [
        offset(1, 0, -5 * MILLISECOND, 5 * MILLISECOND, since_at=0),
        *(
            PodSeen(
                at=2,
                source="recorder",
                pod=pod,
                created_at=1,
                started_at=None,
                ready_at=None,
                deleted_at=None,
                gone_at=None,
                exit_code=None,
                exit_reason="",
                precision_ns=1,
                node=node,
            )
            for pod, node in (("brief", "node-0"), ("not-placed", ""), ("elsewhere", "node-9"))
        ),
    ]
    asked, *seen = [msgspec.to_builtins(record) for record in records]

    found, expected = pod_clocks([asked], "kubernetes", seen), clock_set(records, "kubernetes")

    assert found.of("brief") == PodClock(0, 5 * MILLISECOND)
    assert found.of("not-placed") is found.of("elsewhere") is None
    assert expected.name_of_pod == {"pod-0": "node-0", "brief": "node-0"}
    assert expected.unbounded_pods == ("elsewhere", "not-placed")


def test_partitions_of_the_output_have_the_brokers_clock() -> None:
    """On a cluster a pod without a reading is not bounded; an output partition is no pod."""
    found = pod_clocks([], "kubernetes")

    assert found.of("output-3") == PodClock(0, 0)
    assert found.of("consumer-3") is None


def test_the_error_is_that_of_the_pods_that_are_compared() -> None:
    """Stamps of the broker have one clock, whatever is known of the clocks of other pods."""
    clocks = PodClocks(is_one_clock=False, by_pod={"a": PodClock(0, 3), "b": PodClock(0, 5)})

    assert clocks.most_error_ns(["a", "b", "unknown"]) == 10
    assert clocks.most_error_ns(["a"]) == 6
    assert clocks.most_error_ns(["output-0", "output-1"]) == 0
    assert ONE_CLOCK.most_error_ns(["a", "b"]) == 0
