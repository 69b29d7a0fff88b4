"""Define the scenario of a cell: a committed YAML file, read into frozen models.

Unknown keys and values out of range are rejected by name. Units are in the names.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field, model_validator

from lagbench.core.kubernetes_values import HPA_SYNC_SECONDS, NS_PER_SECOND
from lagbench.core.scenario.abort import Abort
from lagbench.core.scenario.actions import (
    BROKERS_SESSION_SECONDS,
    CLASSIC_SESSION_SECONDS,
    Action,
    ActionBase,
    ActionKind,
    Balancer,
    GrowPartitions,
    SlowDownstream,
    action_problems,
    balancers_of,
)
from lagbench.core.scenario.conf_limits import StrictModel
from lagbench.core.scenario.consumer_kinds import (
    LEVELS,
    KindName,
    SparkConsumer,
    kind_of,
    published_lag_seconds,
)
from lagbench.core.scenario.message_costs import Poison, ProcessMs
from lagbench.core.scenario.own_consumer import OwnConsumer, own_problems
from lagbench.core.scenario.payload import Payload, payload_problems
from lagbench.core.scenario.profiles import BurstyProfile, Profile, StepProfile
from lagbench.core.scenario.slo_limits import SLOS, Slos, with_limits
from pod_program.flags import Flag

MAX_SEED = 2**63 - 1
COMMIT_SECONDS = 1.0
"""The time between two commits of a stand-in; its traffic is the lag at rest."""
OWN_COMMIT_SECONDS = 5.0
"""The same of a user's consumer: the default of the clients' automatic commits."""
CommitMode = Literal["auto", "manual", "transactional"]
Workload = Literal["Deployment", "StatefulSet"]
Work = Literal["scheduled", "waited"]


class Keys(StrictModel):
    """The distribution of events over entities: Zipf with exponent ``zipf_s`` (0 is uniform)."""

    entities: int = Field(5_000_000, ge=1, le=100_000_000)
    zipf_s: float = Field(1.1, ge=0, le=5)


class WorkFlags(StrictModel):
    """The cost of a message, for every kind of consumer; flags of a pod have the same names."""

    process_ms: ProcessMs = Field(2.0, description="wait of one downstream write")
    cpu_ms: float = Field(
        0.0, ge=0, le=1000, description="CPU time that one message takes, before its write"
    )
    concurrency: int = Field(1, ge=1, le=1024, description="messages in progress in one pod")

    @property
    def mean_process_ms(self) -> float:
        """Return the mean wait of a message at its downstream write."""
        cost = self.process_ms
        return cost if isinstance(cost, int | float) else cost.mean_ms

    @property
    def message_ms(self) -> float:
        """Return the mean time of a message in a pod with a core of its own: CPU, then wait."""
        return self.mean_process_ms + self.cpu_ms

    @property
    def pod_rate_per_second(self) -> float | None:
        """Return the highest rate of one pod; None: a message costs nothing."""
        if self.message_ms == 0:
            return None
        rate = self.concurrency * 1000 / self.message_ms
        return min(rate, 1000 / self.cpu_ms) if self.cpu_ms else rate


class ConsumerFlags(WorkFlags):
    """The settings of the stand-in that its pod gets as flags of the same names."""

    work: Work = Field(
        "scheduled",
        description="how a message takes its time: by a schedule, which makes up for a thread that "
        "wakes up to 250 ms late, or waited for",
    )
    balancer: Balancer = Field("cooperative-sticky", description="consumer is KIP-848")
    commit: CommitMode = Field(
        "manual", description="transactional: offsets and ledger together, or not at all"
    )
    graceful_shutdown: Annotated[bool, Flag("drain")] = Field(
        True, description="finish and commit before the pod leaves; off: just leave"
    )
    shutdown_timeout_seconds: Annotated[float, Flag("drain-timeout")] = Field(
        20.0, gt=0, le=3600, description="longest time of the graceful shutdown, in seconds"
    )
    static_membership: bool = Field(False, description="group.instance.id from the pod's name")


class ConsumerSettings(OwnConsumer, ConsumerFlags):
    """The workload under test."""

    kind: KindName = Field(
        "stand-in", description="what consumes: lagbench's own consumer group, Spark, or your own"
    )
    spark: SparkConsumer | None = Field(
        None, description="settings of consumer.kind spark; None there: all by default"
    )

    workload: Workload = Field(
        "Deployment",
        description="kind of the consumers' workload: a StatefulSet's pods keep their names, and "
        "the pod of the highest number leaves first",
    )
    cpu_request_millicores: int = Field(100, ge=1, description="base of CPU utilisation")
    memory_request_mebibytes: int = Field(
        128, ge=1, le=512, description="base of memory utilisation; the limit is 512"
    )
    start_seconds: float | None = Field(
        None,
        ge=0,
        le=3600,
        description="mean wait of a new pod before it joins; on the embedded bench 1.2 by default, "
        "on a cluster, where pods take their own time, only if it is given",
    )

    @property
    def claimed_pod_rate_per_second(self) -> float | None:
        """Return the rate of one pod, as a chart may show it; None: it is not stated.

        An own consumer does not spend what these fields say: at their defaults they claim nothing.
        """
        fields = ConsumerSettings.model_fields
        costs = ("process_ms", "cpu_ms", "concurrency")
        is_default = all(getattr(self, name) == fields[name].default for name in costs)
        return None if self.kind == "own" and is_default else self.pod_rate_per_second

    def lag_at_rest_seconds(self, rate: float, pods: int) -> float:
        """Return the seconds of traffic that lag shows at its highest while ``pods`` keep up."""
        if self.kind == "own":
            return OWN_COMMIT_SECONDS
        if self.kind != "spark":
            return COMMIT_SECONDS
        capacity = (self.pod_rate_per_second or math.inf) * pods
        return published_lag_seconds(self.spark_settings.trigger_seconds, rate, capacity)

    @property
    def spark_settings(self) -> SparkConsumer:
        """Return the settings of consumer.kind spark."""
        return self.spark or SparkConsumer()


class Timeouts(StrictModel):
    """Bounds of the waits of a run."""

    drain_seconds: float = Field(900, gt=0, le=86_400)
    settle_seconds: float = Field(600, gt=0, le=86_400)


class SecondGroup(StrictModel):
    """A second consumer group on the topic; the first group's fields fill in what it leaves out."""

    consumer: ConsumerSettings
    slos: Slos
    policy: str | None = Field(
        None, min_length=1, description="a name, or a path; None: the policy of the first group"
    )


class Scenario(StrictModel):
    """One scenario file."""

    name: str = Field(pattern=r"^[a-z][a-z0-9_]{0,39}$")
    description: str = Field(min_length=1)
    partitions: int = Field(ge=1)  # the catalog limits those of a rehearsal
    message_bytes: Literal[256] = 256
    keys: Keys = Keys()
    payload: Payload | None = None
    profile: Profile
    rate_scale: float = Field(
        1.0, gt=0, le=1, description="scales arrivals, pod rate and every threshold on lag together"
    )
    consumer: ConsumerSettings = ConsumerSettings()
    poison: Poison | None = None
    policy: str = Field(
        min_length=1, description="a name in k8s/policies, or a path from the scenario's file"
    )
    allow_overscale: bool = Field(False, description="allow maxReplicaCount above partitions")
    seed: int = Field(1, ge=0, le=MAX_SEED)
    slos: Slos = Slos()
    timeouts: Timeouts = Timeouts()
    tail: Literal["until_settled", "none"] = Field(
        "until_settled", description="the base load continues until the replicas are back at rest"
    )
    hpa_sync_at_seconds: float | None = Field(
        None,
        ge=0,
        lt=HPA_SYNC_SECONDS,
        description="second of the stream of an HPA sync (embedded bench only); None: as it comes",
    )
    actions: tuple[Action, ...] = Field(
        (), max_length=100, description="what a program of the run does to it, and when"
    )
    second_group: SecondGroup | None = Field(
        None, description="another consumer group on the topic, with its own consumers and policy"
    )
    abort: Abort | None = Field(
        None, description="limits at which the stream ends early; such a run never passes"
    )

    @model_validator(mode="before")
    @classmethod
    def _with_defaults_of_its_parts(cls, data: Any) -> Any:
        """Fill in the second group, and no limits where the accounting cannot judge any."""
        if not isinstance(data, Mapping):
            return data
        found = with_fields_of_first(data)
        consumer, slos = found.get("consumer"), found.get("slos", {})
        level = consumer.get("accounting") if isinstance(consumer, Mapping) else None
        if isinstance(level, str) and level in LEVELS and isinstance(slos, Mapping):
            found["slos"] = LEVELS[level].with_default_limits(slos)
        return found

    @model_validator(mode="after")
    def _fits_together(self) -> Scenario:
        for problem in (*self._problems_of_load(), *self._problems_of_consumers()):
            raise ValueError(problem)
        return self

    def _problems_of_load(self) -> Iterator[str]:
        """Yield what single fields allow and their combination does not."""
        consumer, kind = self.consumer, self.consumer.kind
        if isinstance(self.profile, StepProfile | BurstyProfile) and self.profile.spike_mult < 1:
            yield "profile.spike_mult must be at least 1"
        for number, action in enumerate(self.actions):
            if isinstance(action, SlowDownstream) and not consumer.process_ms:
                yield (
                    f"actions.{number}.kind must be another one: slow_downstream needs "
                    "consumer.process_ms above 0"
                )
            if isinstance(action, SlowDownstream) and consumer.cpu_ms:
                yield (
                    f"actions.{number}.kind must be another one: consumer.cpu_ms is work of the "
                    "pod itself, which a slow downstream does not slow"
                )
        yield from action_problems(
            self.actions, partitions=self.partitions, workload=consumer.workload, kind=kind
        )
        if self.abort is not None:
            yield from self.abort.problems(self.actions)
        if self.payload is not None:
            yield from payload_problems(self.payload, kind, self.poison, self.actions)
        if self.poison is not None and self.poison.key_rank > self.keys.entities:
            yield "poison.key_rank must be at most keys.entities"

    def _problems_of_consumers(self) -> Iterator[str]:
        consumer, second, kind = self.consumer, self.second_group, self.consumer.kind
        kinds = (kind, None if second is None else second.consumer.kind)
        if second is not None and "spark" in kinds:
            yield (
                "second_group must be left out with consumer.kind spark: Spark's master and driver "
                "have one name in a run"
            )
        if second is not None and "own" in kinds:
            yield (
                "second_group must be left out with consumer.kind own: the folders and variables "
                "of your pods have one name in a run"
            )
        fields = type(consumer).model_fields.items()
        given = {name for name, info in fields if getattr(consumer, name) != info.default}
        yield from kind_of(kind).problems(given, [action.kind for action in self.actions])
        groups = {"": consumer} if second is None else {"": consumer, f"{FIELD}.": second.consumer}
        for above, one in groups.items():
            if one.work == "waited" and not one.mean_process_ms:
                yield (
                    f"{above}consumer.process_ms must be above 0 with consumer.work waited: there "
                    "is nothing to wait for"
                )
        if kind == "own":
            yield from own_problems(consumer, self.actions, has_payload=self.payload is not None)
        if kind == "own" and self.poison is not None:
            yield (
                "poison must be left out with consumer.kind own: your consumer has no message that "
                "fails on purpose"
            )
        cores = consumer.spark_settings.cores_per_worker
        if kind == "spark" and consumer.concurrency % cores:
            yield (
                f"consumer.concurrency must be a multiple of consumer.spark.cores_per_worker "
                f"({cores}): each task of a worker has the same share of it"
            )

    @property
    def partition_plan(self) -> PartitionPlan:
        """Return the partitions of the topic over the stream."""
        return partition_plan(self.partitions, self.actions)

    @property
    def longest_session_seconds(self) -> float:
        """Return how long a member that died may stay in the group, under each balancer."""
        if self.consumer.kind == "own":
            return self.consumer.session_timeout_seconds
        balancers = balancers_of(self.consumer.balancer, self.actions)
        return BROKERS_SESSION_SECONDS if "consumer" in balancers else CLASSIC_SESSION_SECONDS

    def of_second_group(self) -> Scenario | None:
        """Return the run as its second group sees it; None: there is none."""
        if self.second_group is None:
            return None
        second = self.second_group
        return self.model_copy(
            update={
                "consumer": second.consumer,
                "slos": second.slos,
                "policy": second.policy or self.policy,
                "actions": tuple(self.actions[number] for number in shared_actions(self.actions)),
                "hpa_sync_at_seconds": None,
                "second_group": None,
            }
        )


FIELD = "second_group"
_PARTS = ("consumer", SLOS)
_ACTIONS_ON_ALL_GROUPS: frozenset[ActionKind] = frozenset(
    {"broker_restart", "autoscaler_down", "grow_partitions"}
)
"""The other kinds act on pods, on the policy or on the connections of the first group only."""


def with_fields_of_first(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return a scenario's data with the unset fields of the second group filled in.

    The policy stays unset, because a command may replace that of the scenario.
    """
    found = dict(data)
    second = found.get(FIELD)
    if not isinstance(second, Mapping):
        return found
    filled = dict(second)
    for part in _PARTS:
        given, first = second.get(part, {}), found.get(part, {})
        if isinstance(given, Mapping) and isinstance(first, Mapping):
            both = with_limits(first, given) if part == SLOS else {**first, **given}
            filled[part] = both
        elif part not in second:  # the scenario's own is wrong, and is reported there
            filled[part] = {}
    found[FIELD] = filled
    return found


def shared_actions(actions: Sequence[ActionBase]) -> dict[int, int]:
    """Return the numbers, in the run and in the second group, of actions on all groups."""
    on_all = _ACTIONS_ON_ALL_GROUPS
    numbers = [number for number, action in enumerate(actions) if action.kind in on_all]
    return {number: place for place, number in enumerate(numbers)}


Counts = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class PartitionPlan:
    """``first`` partitions at the start, then each growth: (second of the stream, partitions)."""

    first: int
    growths: tuple[tuple[float, int], ...] = ()

    def __post_init__(self) -> None:
        """Reject growths that do not grow."""
        second, count = -1.0, self.first
        for at, partitions in self.growths:
            if at <= second or partitions <= count:
                raise ValueError(
                    f"growth {at:g}:{partitions}: seconds and partitions must ascend from {count}"
                )
            second, count = at, partitions

    @property
    def last(self) -> int:
        """Return the partitions at the end."""
        return self.growths[-1][1] if self.growths else self.first

    @property
    def instants_ns(self) -> tuple[tuple[int, int], ...]:
        """Return the growths as (planned offset in nanoseconds, partitions)."""
        return tuple((round(at * NS_PER_SECOND), partitions) for at, partitions in self.growths)

    def at(self, second: float) -> int:
        """Return the partitions at a second of the stream."""
        past = [partitions for at, partitions in self.growths if at <= second]
        return past[-1] if past else self.first

    def at_offsets(self, planned_offset_ns: npt.NDArray[np.int64]) -> Counts:
        """Return the partitions at each planned offset."""
        instants = np.array([at for at, _ in self.instants_ns], dtype=np.int64)
        counts = np.array([self.first, *(count for _, count in self.growths)], dtype=np.int64)
        found: Counts = counts[np.searchsorted(instants, planned_offset_ns, side="right")]
        return found


def partition_plan(partitions: int, actions: Sequence[ActionBase]) -> PartitionPlan:
    """Return the plan of a topic that begins with ``partitions``."""
    growths = (
        (action.at_seconds, action.partitions)
        for action in actions
        if isinstance(action, GrowPartitions) and action.at_seconds is not None
    )
    return PartitionPlan(partitions, tuple(sorted(growths)))
