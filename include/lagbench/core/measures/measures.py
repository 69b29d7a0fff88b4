"""The measures of one run: the models of ``measures.json``.

Everything here is computed from the run folder alone and can be recomputed. Instants are unix
nanoseconds and end in ``_at``. ``None`` means not measured.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pydantic import model_validator

from lagbench.core.measures.accounting.accounting import Accounting
from lagbench.core.measures.doubts.doubt_rules import Validity
from lagbench.core.measures.doubts.doubts_of_policy import EVERYTHING, Doubt
from lagbench.core.measures.drain import NEAR, Drain
from lagbench.core.measures.evidence.group_strangers import GroupStranger
from lagbench.core.measures.evidence.lag_readings import TelemetryGap
from lagbench.core.measures.evidence.observed_group import Observation
from lagbench.core.measures.evidence.played_actions import PlayedAction
from lagbench.core.measures.evidence.producer_report import LoadWindow
from lagbench.core.measures.lag_over_time import Lag
from lagbench.core.measures.model import (
    NANOSECONDS,
    Fidelity,
    Interval,
    MeasureModel,
    NamedMeasure,
    StepValue,
)
from lagbench.core.measures.pod_use import PaidForItself, StartCost
from lagbench.core.measures.reaction import Reaction
from lagbench.core.measures.rebalance_episodes import SCALE_STEPS, EpisodeTrigger, RebalanceEpisode
from lagbench.core.measures.rebalance_summary import NOT_REPORTED, Rebalances
from lagbench.core.measures.run_end import EndState, ObserverCost
from lagbench.core.measures.scale_steps import area_of, dip_of, recovery_of
from lagbench.core.measures.scaling import Scaling
from lagbench.core.measures.spark_measures import SparkMeasures
from lagbench.core.measures.standstill import Standstill
from lagbench.core.scenario.consumer_kinds import KindName
from lagbench.core.scenario.own_consumer import LevelName
from lagbench.core.scenario.scenario import Work


class Measures(MeasureModel):
    """All measures of one run."""

    run_id: str
    scenario: str
    policy: str
    seed: int
    fidelity: Fidelity
    balancer: str
    measured_from_at: int | None
    measured_until_at: int | None
    run_seconds: float | None
    load: LoadWindow
    validity: Validity
    reaction: Reaction
    lag: Lag
    drain: Drain
    rebalances: Rebalances
    scaling: Scaling
    paid_for_itself: PaidForItself
    accounting: Accounting
    observer_cost: ObserverCost
    start_cost: StartCost = StartCost()
    end_state: EndState
    group_strangers: tuple[GroupStranger, ...] = ()
    group_gaps: tuple[TelemetryGap, ...] = ()  # in which the group's members are unknown
    actions: tuple[PlayedAction, ...] = ()  # of the scenario, as they were played
    standstill: Standstill | None = None  # None: measured before this field existed
    work_unknown: str = ""  # gaps in the records of the group's work; empty: none
    doubts: tuple[Doubt, ...] = ()  # why parts of it do not show what the policy did
    consumer_kind: KindName = "stand-in"
    accounting_level: LevelName | None = None  # None: lagbench's own consumers report everything
    observation: Observation | None = None  # None: the run made its own load
    spark: SparkMeasures | None = None  # None: the consumer does not run on Spark
    work: Work | None = None  # None: not a stand-in or Spark, or measured before this field existed

    @model_validator(mode="before")
    @classmethod
    def _without_members(cls, content: Any) -> Any:
        """Leave out what is counted by members that an own consumer does not report."""
        if not isinstance(content, dict) or not content.get("accounting_level"):
            return content
        found = content.get("rebalances")
        if content.get("observation") or not isinstance(found, dict | Rebalances):
            return content
        return {**content, "rebalances": {**dict(found), **NOT_REPORTED}}

    @model_validator(mode="before")
    @classmethod
    def _of_older_versions(cls, content: Any) -> Any:
        """Read what older versions wrote: contradictions without their parts, a second count."""
        if not isinstance(content, dict) or "doubts" in content:
            return content
        texts = content.get("contradictions") or ()
        doubts = [Doubt(code="contradiction", about=EVERYTHING, text=text) for text in texts]
        gone = ("contradictions", "rate_doubt")
        return {name: of for name, of in content.items() if name not in gone} | {"doubts": doubts}

    def moment(self, at: int | None) -> str:
        """Return an instant as seconds after the load's origin, the first spike."""
        origin = self.load.origin_at
        if at is None or origin is None:
            return "at an unknown instant"
        return f"at {(at - origin) / NANOSECONDS:+.1f} s"

    @property
    def is_skew_limited(self) -> bool:
        """True: one pod read the hottest partition for about as long as the drain took.

        An even share of the load is none: there the number of partitions is the limit.
        """
        drained, least = self.drain.drain_seconds, self.drain.skew_limited_seconds
        share = self.accounting.hottest_partition_share
        is_hot = share is None or share * self.scaling.partitions > NEAR
        return is_hot and drained is not None and bool(least) and drained <= (least or 0) * NEAR

    @property
    def spikes_unknown(self) -> str:
        """Why it is not known whether the load had a spike; empty: it is known.

        The plan of a run marks its spikes. Those of an observed load are what one pod cannot take.
        """
        if self.observation is None or self.observation.pod_rate_per_second is not None:
            return ""
        return "without the rate of one pod (--pod-rate) it is not known whether there was a spike"


def _of_steps(step: str, title: str, costs: str) -> tuple[tuple[str, str, str, int, str], ...]:
    """Return mean dip, mean area and longest recovery of one kind of step."""
    longest = f"Longest recovery of a {title}"
    return (
        (f"{step}_dip_percent", f"Dip per {title}", "%", 1, f"{costs}.mean_dip_percent"),
        (f"{step}_area_seconds", f"Area per {title}", "s", 2, f"{costs}.mean_area_seconds"),
        (f"{step}_recovery_seconds", longest, "s", 1, f"{costs}.max_recovery_seconds"),
    )


_WAIT = "Wait of the first message after idle"
_GAPS, _OVER = "partition_gaps", "of a handed-over partition"
_NAMED: dict[str, tuple[tuple[str, str, str, int, str], ...]] = {
    "reaction": (
        ("reaction_seconds", "Scale-out reaction", "s", 1, "assigned_seconds"),
        ("pod_start_percent", "Pod's start in the reaction", "%", 0, ""),
    ),
    "lag": (
        ("peak_lag_records", "Peak lag", "messages", 0, "peak_records"),
        ("time_lag_p50_seconds", "Time lag p50", "s", 1, "time_lag_seconds.p50"),
        ("time_lag_p95_seconds", "Time lag p95", "s", 1, "time_lag_seconds.p95"),
        ("time_lag_p99_seconds", "Time lag p99", "s", 1, "time_lag_seconds.p99"),
        ("first_event_wait_seconds", _WAIT, "s", 1, "after_idle.seconds"),
    ),
    "drain": (("drain_seconds", "Lag drain", "s", 1, ""),),
    "rebalances": (
        ("rebalances", "Rebalances", "", 0, "after_start"),
        ("rebalance_dip_percent", "Rebalance dip", "%", 1, "max_dip_percent"),
        ("rebalance_area_seconds", "Rebalance area", "s", 2, "max_area_seconds"),
        ("rebalance_recovery_seconds", "Rebalance recovery", "s", 1, "max_recovery_seconds"),
        *_of_steps("scale_up", "scale-up step", "scale_ups"),
        *_of_steps("scale_down", "scale-down step", "scale_downs"),
        *_of_steps("action", "rebalance by an action", "of_actions"),
        ("partitions_handed_over", "Partitions handed to another pod", "", 0, f"{_GAPS}.handovers"),
        ("partition_gap_p95_seconds", f"Gap {_OVER} p95", "s", 2, f"{_GAPS}.p95_seconds"),
        ("partition_gap_max_seconds", f"Longest gap {_OVER}", "s", 2, f"{_GAPS}.max_seconds"),
    ),
    "scaling": (
        ("flips", "Flapping", "flips", 0, ""),
        ("self_made_flips", "Self-made flips", "flips", 0, ""),
        ("load_following_flips", "Load-following flips", "flips", 0, ""),
        ("replica_changes", "Replica changes", "", 0, "change_count"),
        ("max_replicas", "Most replicas", "", 0, ""),
        ("pod_minutes", "Pod time", "pod-minutes", 1, ""),
        ("pod_minutes_after", "Pod time after the window, until at rest", "pod-minutes", 1, ""),
        ("idle_pod_minutes", "Pod time without work", "pod-minutes", 1, ""),
        ("cpu_ms_per_message", "CPU of the pods for a message", "ms", 3, ""),
        ("surplus_pods", "Pods that never got a partition", "", 0, "surplus_count"),
        ("surplus_records", "Messages done by pods without a partition", "messages", 0, ""),
    ),
    "accounting": (
        ("lost", "Messages lost", "messages", 0, "lost_in_all"),
        ("failed", "Messages failed without poison", "messages", 0, "failed_unplanned"),
        ("duplicated", "Double-processing in the ledger", "processings", 0, ""),
        ("reordered", "Messages reordered", "messages", 0, ""),
        ("hottest_partition_share", "Share of the hottest partition", "", 3, ""),
        ("moved_keys", "Keys that moved partition", "keys", 0, "moved.keys"),
        ("overtaken", "Overtaken by their key elsewhere", "messages", 0, "moved.overtaken"),
        ("zombies", "Two owners at once", "messages", 0, "zombie"),
        ("lost_at_shutdown", "Messages lost around a SIGTERM", "messages", 0, ""),
        ("duplicated_at_shutdown", "Messages repeated around a SIGTERM", "messages", 0, ""),
    ),
    "paid_for_itself": (
        ("net_records_per_pod_minute", "Cleared by an added pod-minute, net", "messages", 0, ""),
    ),
    "standstill": (("standstill_seconds", "Standstill", "s", 1, "group_seconds"),),
    "spark": (
        ("batch_seconds", "Batch time (median)", "s", 1, ""),
        ("publish_delay_seconds", "Publish delay (median)", "s", 2, ""),
        ("tasks_recomputed", "Tasks recomputed", "tasks", 0, ""),
        ("executor_minutes", "Executor time", "executor-minutes", 1, ""),
    ),
}
"""By field of ``Measures``: name, title, unit, decimals, and path (empty: the name)."""


def _reader(path: str) -> Callable[[Measures], Any]:
    """Return what reads ``path``; what is None on the way was not measured."""

    def read(measures: Measures) -> Any:
        found: Any = measures
        for name in path.split("."):
            found = None if found is None else getattr(found, name)
        return found

    return read


def _of_time_lag(percentile: str) -> Callable[[Measures], Interval | None]:
    return lambda run: run.lag.time_lag_interval(getattr(run.lag.time_lag_seconds, percentile))


_INTERVALS: dict[str, Callable[[Measures], Interval | None]] = {
    "reaction_seconds": _reader("reaction.assigned_interval"),
    "time_lag_p50_seconds": _of_time_lag("p50"),
    "time_lag_p95_seconds": _of_time_lag("p95"),
    "time_lag_p99_seconds": _of_time_lag("p99"),
    "drain_seconds": _reader("drain.drain_interval"),
    "standstill_seconds": _reader("standstill.group_interval"),
    "reordered": _reader("accounting.reordered_interval"),
    "overtaken": _reader("accounting.moved.overtaken_interval"),
    "zombies": _reader("accounting.zombie_interval"),
}
_READ_STEP: dict[str, Callable[[RebalanceEpisode], StepValue]] = {
    "dip_percent": dip_of,
    "area_seconds": area_of,
    "recovery_seconds": recovery_of,
}
_KINDS: dict[str, tuple[EpisodeTrigger, ...]] = {
    "rebalance": SCALE_STEPS,
    "scale_up": ("scale_up",),
    "scale_down": ("scale_down",),
    "action": ("action",),
}


def _each_step(
    read: Callable[[RebalanceEpisode], StepValue], kinds: tuple[EpisodeTrigger, ...]
) -> Callable[[Measures], tuple[StepValue, ...]]:
    """Return what reads each step with work to lose; one that moved nothing has no value."""

    def values(measures: Measures) -> tuple[StepValue, ...]:
        found = measures.rebalances
        unanswered = [
            StepValue()
            for change in measures.scaling.changes
            if change.at in found.unanswered_step_ats and change.kind in kinds
        ]
        return (*(read(step) for step in found.steps(*kinds)), *unanswered)

    return values


_STEPS = {
    f"{step}_{end}": _each_step(read, kinds)
    for step, kinds in _KINDS.items()
    for end, read in _READ_STEP.items()
}
NAMED = {
    name: NamedMeasure(
        name,
        title,
        unit,
        digits,
        _reader(f"{part}.{path or name}"),
        _INTERVALS.get(name),
        part,
        _STEPS.get(name),
    )
    for part, rows in _NAMED.items()
    for name, title, unit, digits, path in rows
}
"""The measures of one run, by name."""
