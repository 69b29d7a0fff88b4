"""Derive the next steps of a reader from the measures and the SLOs of a run."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from lagbench.core.measures.measures import Measures
from lagbench.core.policy.policy_limits import PolicyLimits
from lagbench.core.verdict.slo import SECOND_GROUP_PREFIX
from lagbench.core.verdict.verdict import Verdict

MOST_CHEAPER = 3

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


_OF_REBALANCES = {
    "rebalance_dip_percent",
    "rebalance_recovery_seconds",
    "rebalance_area_seconds",
    "standstill_seconds",
}
Command = Callable[..., str]
"""Returns a ``lagbench`` command on the run, by its verb and further arguments."""


@dataclass(frozen=True, slots=True)
class NextStep:
    """Advice, its reason, and a command that helps (empty: there is none)."""

    do: str
    because: str
    command: str = ""


def next_steps(
    measures: Measures,
    verdict: Verdict,
    conf: Mapping[str, Any] = MappingProxyType({}),
    *,
    is_second: bool = False,
    cheaper: Sequence[str] = (),
) -> list[NextStep]:
    """Return the steps, the most urgent first.

    ``conf``: what repeats the run: ``scenario`` and ``policy`` (a name of the catalog or the path
    of a file; None: the scenario's own) and ``overrides`` (the fields changed by ``--set``).
    Without it the names in the measures stand for both. ``is_second``: the measures are of the
    second group, which no command may mistake for the first. ``cheaper``: policies to try instead.
    """
    m, failed = measures, {slo.name for slo in verdict.slos if slo.status == "fail"}
    is_observed, seed = m.observation is not None, ("--seed", str(m.seed))

    def command(verb: str, *more: str) -> str:
        """Return a command on this run's scenario and policy, with the fields that it changed.

        An observed group has no scenario in the catalog, so no command repeats it: empty.
        """
        if is_observed:
            return ""
        overrides = (conf.get("overrides") or {}).items()
        changed = [f"--set={field}={value}" for field, value in overrides if field != "seed"]
        scenario, policy = conf.get("scenario", m.scenario), conf.get("policy", m.policy)
        given = [] if policy is None else ["--policy", str(policy)]
        return shlex.join(["lagbench", verb, str(scenario), *given, *changed, *more])

    steps = []
    if verdict.status == "undetermined" or verdict.invalid:
        do = (
            f"remove what left the verdict open, and {'observe' if is_observed else 'run'} it again"
        )
        why = (*verdict.invalid, *verdict.deciding)[0]
        steps.append(NextStep(do, why, command("run", *seed)))
    steps += _messages(m, verdict)
    if "reaction_seconds" in failed and m.spark is None:
        steps += [_predicted(step, command) for step in _reaction(m)]
    if failed & {"drain_seconds", "time_lag_p95_seconds", "time_lag_p99_seconds"}:
        steps += _drain(m)
    if flips := m.scaling.self_made_flips:
        do = "lower the gain of the loop: raise lagThreshold, or lengthen the window of scaleDown"
        why = f"{flips} reversals of the replicas without one of the load"
        steps.append(_predicted(NextStep(do, why), command))
    if failed & _OF_REBALANCES and m.spark is None:
        steps.append(_rebalance(m, is_second=is_second, command=command))
    if m.scaling.surplus_pods and m.spark is None:
        do = f"limit maxReplicaCount to the {_partitions(m)} partitions"
        steps.append(NextStep(do, f"{len(m.scaling.surplus_pods)} pods never got a partition"))
    steps += _last(m, verdict, is_second=is_second, command=command, cheaper=cheaper)
    if m.fidelity == "kubernetes":  # which cluster it was stays with the user
        steps = [
            replace(step, do=f"{step.do} (add --target)") if " run " in step.command else step
            for step in steps
        ]
    return steps


def cheaper_policies(
    measures: Measures, own: PolicyLimits, others: Mapping[str, PolicyLimits]
) -> list[str]:
    """Return the policies that let each pod keep more lag and scale no further, nearest first."""
    most = min(own.ceiling_replicas, _partitions(measures))
    lag = own.lag_threshold_records or 0
    found = [
        (limits.lag_threshold_records, name)
        for name, limits in others.items()
        if limits.floor_replicas <= own.floor_replicas and limits.ceiling_replicas <= most
        if limits.lag_threshold_records is not None and limits.lag_threshold_records > lag
    ]
    return [name for _, name in sorted(found)] if lag else []


def _predicted(step: NextStep, command: Command) -> NextStep:
    """Add the command that predicts the change."""
    predict = command("plan")
    return replace(step, do=f"{step.do}; predict the change", command=predict) if predict else step


def _compared(measures: Measures, command: str) -> str:
    """Return a command that runs, and compares the run with the one that was measured."""
    run_id = measures.run_id.partition("/")[0]
    return command and f"{command}; {shlex.join(['lagbench', 'compare', run_id, 'latest'])}"


def _partitions(measures: Measures) -> int:
    """Return the partitions that pods could have at the end."""
    return measures.scaling.partitions_at_end or measures.scaling.partitions


def _messages(measures: Measures, verdict: Verdict) -> Iterator[NextStep]:
    names = ("lost", "failed", "duplicated", "reordered", "zombies")
    broken = [slo for slo in verdict.slos if slo.status == "fail" and slo.name in names]
    if broken:
        groups = measures.accounting.bad_messages
        cause = max(groups, key=lambda group: group.count).cause if groups else ""
        titles = ", ".join(slo.title.lower() for slo in broken)
        yield NextStep(
            "repair commit and shutdown of the consumer before its scaling",
            f"failed: {titles}{f'; most often {cause}' if cause else ''}",
        )


def _reaction(measures: Measures) -> Iterator[NextStep]:
    reaction = measures.reaction
    parts = [link for link in reaction.links if link.part_seconds and link.name in _AGAINST_LINK]
    if parts:
        longest = max(parts, key=lambda link: link.part_seconds or 0.0)
        total = reaction.total_seconds
        advice = _AGAINST_LINK[longest.name]
        if longest.name == "t2":
            advice = _AGAINST_CLOCK.get(reaction.ruling_clock, advice)
        yield NextStep(
            advice,
            f"the longest link of the reaction, up to {longest.name} ({longest.title}), took"
            f" {longest.part_seconds:.1f} s{'' if total is None else f' of {total:.1f} s'}",
        )


def _drain(measures: Measures) -> Iterator[NextStep]:
    drain, scaling, partitions = measures.drain, measures.scaling, _partitions(measures)
    drained, least = drain.drain_seconds, drain.skew_limited_seconds
    most, ceiling = scaling.max_ready_replicas, scaling.ceiling_replicas
    if measures.is_skew_limited:
        yield NextStep(
            "spread the keys over more partitions; more pods do not help",
            f"partition {drain.hottest_partition} alone needs {least:.1f} s with one pod, and the"
            f" drain took {drained:.1f} s",
        )
    elif most is not None and most >= partitions:
        yield NextStep(
            "give the topic more partitions, or make a message cheaper",
            f"{most} pods were ready for {partitions} partitions",
        )
    elif most is not None and ceiling and most >= ceiling:
        yield NextStep(
            f"raise maxReplicaCount up to the {partitions} partitions",
            f"the group stood at its ceiling of {ceiling} pods",
        )


def _rebalance(measures: Measures, *, is_second: bool, command: Command) -> NextStep:
    if measures.observation is not None or measures.consumer_kind == "own":
        return NextStep(
            "let the consumer commit and close on SIGTERM, and assign by cooperative-sticky",
            "work stood still for longer than its SLO allows, and the balancer is the consumer's",
        )
    group = SECOND_GROUP_PREFIX if is_second else ""
    other = "cooperative-sticky" if measures.balancer == "consumer" else "consumer"
    return NextStep(
        "rehearse the other rebalance protocol with the same seed, and compare",
        f"a rebalance cost more than its SLO allows, with balancer {measures.balancer}",
        _compared(
            measures,
            command("run", "--seed", str(measures.seed), f"--set={group}consumer.balancer={other}"),
        ),
    )


def _last(
    measures: Measures,
    verdict: Verdict,
    *,
    is_second: bool,
    command: Command,
    cheaper: Sequence[str],
) -> Iterator[NextStep]:
    price = "all judged SLOs hold: what is left is the price"
    if measures.observation is not None:
        yield NextStep(
            "rehearse this load with one change of the policy, before production gets it",
            "observed_load.csv of the run folder is its trace (profile.kind: trace)",
        )
    elif verdict.status == "pass" and is_second:  # the simulator plays the first group alone
        yield NextStep("look for a cheaper policy of the second group that also holds", price)
    elif verdict.status == "pass":
        others = [f"--policy={name}" for name in cheaper]
        do = "look for a cheaper policy that also holds"
        simulated = command("simulate", *others, "--seeds", "20") if others else ""
        yield NextStep(f"{do}, first in the simulator" if others else do, price, simulated)
    elif verdict.status == "fail":
        yield NextStep(
            "change one thing, run it with the same seed, and compare the two",
            "one run is one draw of the load and of the HPA's phase: only pairs of runs prove it",
            _compared(measures, command("run", "--seed", str(measures.seed))),
        )
