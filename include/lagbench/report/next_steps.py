"""Derive the next steps of a reader from the measures and the SLOs of a run."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from lagbench.catalog.catalog_files import is_path
from lagbench.core.measures import Measures
from lagbench.core.verdict import SECOND_GROUP_PREFIX, Verdict

NEAR = 1.25
"""A drain of at most this many times its lower bound cannot be shortened much by more pods."""

_AGAINST_LINK = {
    "t1": "lower lagThreshold, or scale on the growth of lag: lag itself was late",
    "t2": "look at what delayed the reading: the controller, or the source of the metric",
    "t3": "loosen behavior.scaleUp: its window or its policies held the step back",
    "t4": "look at the Deployment's events: the pod was wanted, and not created",
    "t5": "shorten the start of a pod, or keep more pods ready (minReplicaCount, a cron trigger)",
    "t6": "look at the consumer's start: a Ready pod had not joined the group",
    "t7": "shorten the rebalance (another balancer), or scale in fewer steps",
    "t8": "look at the consumer: it had partitions and did no record",
}
"""Advice on each link of the reaction chain, by the link's name."""
_AGAINST_CLOCK = {
    "hpa_sync": "be ready before the spike (minReplicaCount, a cron trigger): the HPA's sync ruled,"
    " a flag of its controller; a lower pollingInterval shortens it only with useCachedMetrics",
    "keda_poll": "lower pollingInterval: from 0 replicas KEDA's poll ruled",
}
"""Advice on t2 where it is known which clock the reading waited for."""


@dataclass(frozen=True, slots=True)
class NextStep:
    """Advice, its reason, and a command that helps (empty: there is none)."""

    do: str
    because: str
    command: str = ""


@dataclass(frozen=True, slots=True)
class _Case:
    """The input of all rules; ``failed``: the names of the SLOs that failed."""

    measures: Measures
    verdict: Verdict
    failed: frozenset[str]
    conf: Mapping[str, Any]
    is_second: bool  # the second group of its run, whose commands act on the run

    def command(self, verb: str, *more: str) -> str:
        """Return a command on this run's scenario and policy, with the fields that it changed.

        An observed group has no scenario in the catalog, so no command repeats it: empty.
        """
        if self.measures.observation is not None:
            return ""
        overrides = self.conf.get("overrides") or {}
        changed = [
            f"--set={field}={value}" for field, value in overrides.items() if field != "seed"
        ]
        scenario = self.conf.get("scenario", self.measures.scenario)
        policy = self.conf.get("policy", self.measures.policy)
        given = [] if policy is None else ["--policy", str(policy)]
        command = shlex.join(["lagbench", verb, str(scenario), *given, *changed, *more])
        files = [str(name) for name in (scenario, policy) if name and is_path(str(name))]
        return f"{command}  # with the path of {' and of '.join(files)}" if files else command

    @property
    def again(self) -> tuple[str, str]:
        """The option that repeats this run's load."""
        return "--seed", str(self.measures.seed)

    @property
    def partitions(self) -> int:
        """The partitions that pods could have at the end."""
        return self.measures.scaling.partitions_at_end or self.measures.scaling.partitions


def next_steps(
    measures: Measures,
    verdict: Verdict,
    conf: Mapping[str, Any] = MappingProxyType({}),
    *,
    is_second: bool = False,
) -> list[NextStep]:
    """Return the steps, the most urgent first.

    ``conf``: what the run was given, as its manifest has it: ``scenario`` and ``policy`` (a name of
    the catalog or a file; None: the scenario's own) and ``overrides`` (the fields changed by
    ``--set``). Without it the names in the measures stand for both. ``is_second``: the measures
    are of the second group, which no command may mistake for the first.
    """
    failed = frozenset(slo.name for slo in verdict.slos if slo.status == "fail")
    case = _Case(measures, verdict, failed, conf, is_second)
    return [step for rule in _RULES for step in rule(case)]


def _trust(case: _Case) -> Iterator[NextStep]:
    if case.verdict.status == "undetermined" or case.verdict.invalid:
        why = (*case.verdict.invalid, *case.verdict.deciding)[0]
        again = "run" if case.measures.observation is None else "observe"
        yield NextStep(
            f"remove what left the verdict open, and {again} it again",
            why,
            case.command("run", *case.again),
        )


def _messages(case: _Case) -> Iterator[NextStep]:
    broken = [
        slo.title.lower()
        for slo in case.verdict.slos
        if slo.status == "fail"
        and slo.name in ("lost", "failed", "duplicated", "reordered", "zombies")
    ]
    if broken:
        groups = case.measures.accounting.bad_messages
        cause = max(groups, key=lambda group: group.count).cause if groups else ""
        yield NextStep(
            "repair commit and shutdown of the consumer before its scaling",
            f"failed: {', '.join(broken)}{f'; most often {cause}' if cause else ''}",
        )


def _reaction(case: _Case) -> Iterator[NextStep]:
    parts = [
        link
        for link in case.measures.reaction.links
        if link.part_seconds and link.name in _AGAINST_LINK
    ]
    if "reaction_seconds" not in case.failed or not parts or case.measures.spark is not None:
        return
    longest = max(parts, key=lambda link: link.part_seconds or 0.0)
    total = case.measures.reaction.total_seconds
    share = "" if total is None else f" of {total:.1f} s"
    advice = _AGAINST_LINK[longest.name]
    if longest.name == "t2":
        advice = _AGAINST_CLOCK.get(case.measures.reaction.ruling_clock, advice)
    yield NextStep(
        advice,
        f"the longest link of the reaction, up to {longest.name} ({longest.title}), took"
        f" {longest.part_seconds:.1f} s{share}",
        case.command("plan"),
    )


def _drain(case: _Case) -> Iterator[NextStep]:
    if not case.failed & {"drain_seconds", "time_lag_p95_seconds", "time_lag_p99_seconds"}:
        return
    drain, scaling = case.measures.drain, case.measures.scaling
    drained, least = drain.drain_seconds, drain.skew_limited_seconds
    most, ceiling = scaling.max_ready_replicas, scaling.ceiling_replicas
    if least and drained is not None and drained <= least * NEAR:
        yield NextStep(
            "spread the keys over more partitions; more pods do not help",
            f"partition {drain.hottest_partition} alone needs {least:.1f} s with one pod, and the"
            f" drain took {drained:.1f} s",
        )
    elif most is not None and most >= case.partitions:
        yield NextStep(
            "give the topic more partitions, or make a message cheaper",
            f"{most} pods were ready for {case.partitions} partitions",
        )
    elif most is not None and ceiling and most >= ceiling:
        yield NextStep(
            f"raise maxReplicaCount up to the {case.partitions} partitions",
            f"the group stood at its ceiling of {ceiling} pods",
        )


def _flips(case: _Case) -> Iterator[NextStep]:
    flips = case.measures.scaling.self_made_flips
    if flips:
        yield NextStep(
            "lower the gain of the loop: raise lagThreshold, or lengthen the window of scaleDown",
            f"{flips} reversals of the replicas without one of the load",
            case.command("plan"),
        )


def _surplus(case: _Case) -> Iterator[NextStep]:
    surplus = case.measures.scaling.surplus_pods
    if surplus and case.measures.spark is None:
        yield NextStep(
            f"limit maxReplicaCount to the {case.partitions} partitions",
            f"{len(surplus)} pods never got a partition",
        )


def _dips(case: _Case) -> Iterator[NextStep]:
    names = {"rebalance_dip_percent", "rebalance_recovery_seconds", "rebalance_area_seconds"}
    if not case.failed & (names | {"standstill_seconds"}) or case.measures.spark is not None:
        return
    if case.measures.observation is not None or case.measures.consumer_kind == "own":
        yield NextStep(
            "let the consumer commit and close on SIGTERM, and assign by cooperative-sticky",
            "work stood still for longer than its SLO allows, and the balancer is the consumer's",
        )
    else:
        group = SECOND_GROUP_PREFIX if case.is_second else ""
        other = "cooperative-sticky" if case.measures.balancer == "consumer" else "consumer"
        yield NextStep(
            "rehearse the other rebalance protocol with the same seed, and compare",
            f"a rebalance cost more than its SLO allows, with balancer {case.measures.balancer}",
            case.command("run", *case.again, f"--set={group}consumer.balancer={other}"),
        )


def _sure(case: _Case) -> Iterator[NextStep]:
    if case.measures.observation is not None:
        yield NextStep(
            "rehearse this load with one change of the policy, before production gets it",
            "observed_load.csv of the run folder is its trace (profile.kind: trace)",
        )
    elif case.verdict.status == "pass" and case.is_second:
        yield NextStep(  # the simulator plays the first group alone
            "look for a cheaper policy of the second group that also holds",
            "all judged SLOs hold: what is left is the price",
        )
    elif case.verdict.status == "pass":
        yield NextStep(
            "look for a cheaper policy that also holds, first in the simulator",
            "all judged SLOs hold: what is left is the price",
            case.command("simulate", "--seeds", "20"),
        )
    elif case.verdict.status == "fail":
        yield NextStep(
            "change one thing, run it with the same seed, and compare by pairs of runs",
            "one run is one draw of the load and of the HPA's phase",
            case.command("run", *case.again),
        )


_RULES: tuple[Callable[[_Case], Iterator[NextStep]], ...] = (
    _trust,
    _messages,
    _reaction,
    _drain,
    _flips,
    _dips,
    _surplus,
    _sure,
)
