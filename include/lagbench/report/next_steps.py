"""What a reader can do next: each step follows from a measure or an SLO of this run."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from lagbench.core.measures import Measures
from lagbench.core.verdict import Verdict

NEAR = 1.25
"""A drain of at most this many times its lower bound cannot be shortened much by more pods."""

_AGAINST_LINK = {
    "t1": "lower lagThreshold, or scale on the growth of lag: lag itself was late",
    "t2": "lower pollingInterval; the HPA reads every 15 s, which a policy cannot change",
    "t3": "loosen behavior.scaleUp: its window or its policies held the step back",
    "t4": "look at the Deployment's events: the pod was wanted, and not created",
    "t5": "shorten the start of a pod, or keep more pods ready (minReplicaCount, a cron trigger)",
    "t6": "look at the consumer's start: a Ready pod had not joined the group",
    "t7": "shorten the rebalance (balancer cooperative-sticky or consumer), or scale in fewer steps",
    "t8": "look at the consumer: it had partitions and did no record",
}
"""What shortens each link of the reaction chain, by the link's name."""


@dataclass(frozen=True, slots=True)
class NextStep:
    """What to do, because of what, and a command that helps (empty: none does)."""

    do: str
    because: str
    command: str = ""


def next_steps(measures: Measures, verdict: Verdict) -> list[NextStep]:
    """Return the steps, the most urgent first; there is always one."""
    failed = {slo.name for slo in verdict.slos if slo.status == "fail"}
    return [step for rule in _RULES for step in rule(measures, verdict, failed)]


def _cell(measures: Measures) -> str:
    words = (measures.scenario, "--policy", measures.policy, "--seed", str(measures.seed))
    return shlex.join(words)


def _trust(m: Measures, verdict: Verdict, failed: set[str]) -> Iterator[NextStep]:
    if verdict.status == "undetermined" or verdict.invalid:
        why = (*verdict.invalid, *verdict.reasons)[0]
        yield NextStep(
            "remove what left the verdict open, and run it again",
            why,
            f"lagbench run {_cell(m)}",
        )


def _messages(m: Measures, verdict: Verdict, failed: set[str]) -> Iterator[NextStep]:
    broken = [
        slo.title.lower()
        for slo in verdict.slos
        if slo.status == "fail"
        and slo.name in ("lost", "failed", "duplicated", "reordered", "zombies")
    ]
    if broken:
        groups = m.accounting.bad_messages
        cause = f"; most often: {groups[0].cause}" if groups and groups[0].cause else ""
        yield NextStep(
            "repair commit and shutdown of the consumer before its scaling",
            f"failed: {', '.join(broken)}{cause}",
        )


def _reaction(m: Measures, verdict: Verdict, failed: set[str]) -> Iterator[NextStep]:
    parts = [link for link in m.reaction.links if link.part_seconds and link.name in _AGAINST_LINK]
    if "reaction_seconds" not in failed or not parts or m.spark is not None:
        return
    longest = max(parts, key=lambda link: link.part_seconds or 0.0)
    yield NextStep(
        _AGAINST_LINK[longest.name],
        f"the longest link of the reaction, up to {longest.name} ({longest.title}), took"
        f" {longest.part_seconds:.1f} s of {m.reaction.total_seconds or 0:.1f} s"
        if m.reaction.total_seconds
        else f"the longest known link of the reaction ends at {longest.name} ({longest.title})",
        f"lagbench plan {shlex.join([m.scenario, '--policy', m.policy])}",
    )


def _drain(m: Measures, verdict: Verdict, failed: set[str]) -> Iterator[NextStep]:
    if not failed & {"drain_seconds", "time_lag_p95_seconds", "time_lag_p99_seconds"}:
        return
    drained, least = m.drain.drain_seconds, m.drain.skew_limited_seconds
    useful = m.scaling.partitions_at_end or m.scaling.partitions
    most = m.scaling.max_ready_replicas
    if least and drained is not None and drained <= least * NEAR:
        yield NextStep(
            "spread the keys over more partitions; more pods do not help",
            f"partition {m.drain.hottest_partition} alone needs {least:.1f} s with one pod,"
            f" and the drain took {drained:.1f} s",
        )
    elif most is not None and most >= useful:
        yield NextStep(
            "give the topic more partitions, or make a message cheaper",
            f"{most} pods were ready for {useful} partitions",
        )
    elif most is not None and m.scaling.ceiling_replicas and most >= m.scaling.ceiling_replicas:
        yield NextStep(
            f"raise maxReplicaCount up to the {useful} partitions",
            f"the group stood at its ceiling of {m.scaling.ceiling_replicas} pods",
        )


def _flips(m: Measures, verdict: Verdict, failed: set[str]) -> Iterator[NextStep]:
    if m.scaling.self_made_flips:
        yield NextStep(
            "lower the gain of the loop: raise lagThreshold, or lengthen the window of scaleDown",
            f"{m.scaling.self_made_flips} reversals of the replicas without one of the load",
            f"lagbench plan {shlex.join([m.scenario, '--policy', m.policy])}",
        )


def _surplus(m: Measures, verdict: Verdict, failed: set[str]) -> Iterator[NextStep]:
    if m.scaling.surplus_pods and m.spark is None:
        partitions = m.scaling.partitions_at_end or m.scaling.partitions
        yield NextStep(
            f"limit maxReplicaCount to the {partitions} partitions",
            f"{len(m.scaling.surplus_pods)} pods never got a partition",
        )


def _dips(m: Measures, verdict: Verdict, failed: set[str]) -> Iterator[NextStep]:
    names = {"rebalance_dip_percent", "rebalance_recovery_seconds", "rebalance_area_seconds"}
    if failed & (names | {"standstill_seconds"}) and m.spark is None:
        other = "cooperative-sticky" if m.balancer == "consumer" else "consumer"
        yield NextStep(
            "rehearse the other rebalance protocol with the same seed, and compare",
            f"a rebalance cost more than its SLO allows, with balancer {m.balancer}",
            f"lagbench run {_cell(m)} --set consumer.balancer={other}",
        )


def _sure(m: Measures, verdict: Verdict, failed: set[str]) -> Iterator[NextStep]:
    if verdict.status == "pass":
        yield NextStep(
            "look for a cheaper policy that also holds, before you rehearse it",
            "all judged SLOs hold: what is left is the price",
            f"lagbench simulate {shlex.join([m.scenario, '--policy', m.policy])} --seeds 20",
        )
    elif verdict.status == "fail":
        yield NextStep(
            "change one thing, run it with the same seed, and compare by pairs of runs",
            "one run is one draw of the load and of the HPA's phase",
            f"lagbench run {_cell(m)}",
        )


_RULES: tuple[Callable[[Measures, Verdict, set[str]], Iterator[NextStep]], ...] = (
    _trust,
    _messages,
    _reaction,
    _drain,
    _dips,
    _flips,
    _surplus,
    _sure,
)
