"""List the kinds of consumers and the levels of accounting: what each cannot have or judge.

lagbench's own consumers write a ledger and report what they do, so every SLO can be judged. Of
other code a level names what is known. An SLO that it cannot judge has no limit by default, and
the verdict names it first; with a limit of the user the run is undetermined.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic import Field

from lagbench.core.scenario.actions import ActionKind
from lagbench.core.scenario.conf_limits import StrictModel
from lagbench.core.scenario.own_consumer import OWN_FIELDS, LevelName
from lagbench.core.scenario.slo_limits import with_limits

_NO_WORK = "committed offsets do not show which messages were processed, nor when"
_STEPS = "committed offsets move in steps, one for each commit, not as the work is done"
_NO_OWNERS = "only lagbench's own consumers report which of them owned a partition"
_NO_REPORT = "only lagbench's own consumers report messages that they give up"

_OF_OWNERS: Mapping[str, str] = dict.fromkeys(
    (
        "reaction_seconds",
        "rebalance_dip_percent",
        "rebalance_area_seconds",
        "rebalance_recovery_seconds",
        "zombies",
        "surplus_pods_idle",
    ),
    _NO_OWNERS,
)


@dataclass(frozen=True, slots=True)
class AccountingLevel:
    """One level of accounting."""

    name: LevelName
    source: str
    """Where the knowledge of messages comes from, in words."""
    has_work: bool
    """True: each processed message is known by its identity, with an instant."""
    cannot_judge: Mapping[str, str]
    """SLOs (fields of ``Slos``) that this level cannot judge, each with the reason."""

    @property
    def text(self) -> str:
        """Return the level in words, for a verdict and a report."""
        return f"accounting by {self.source}"

    def default_limits(self) -> dict[str, bool | None]:
        """Return the limits of the SLOs that cannot be judged: none."""
        return {name: _NO_LIMIT.get(name) for name in self.cannot_judge}

    def with_default_limits(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the user's limits, and none for the other SLOs that this level cannot judge."""
        return with_limits(self.default_limits(), given)

    def judged_without(self, names: Iterable[str], *, but: Collection[str] = ()) -> str:
        """Return the first sentence of a verdict: what this level leaves unjudged."""
        known = set(names) - set(but)
        missing = [name for name in self.cannot_judge if name in known]
        return f"judged without: {', '.join(missing)} ({self.text})" if missing else ""


_NO_LIMIT: Mapping[str, bool] = {"surplus_pods_idle": False, "lag_falls_at_full_parallelism": False}
"""Claims are switched off, not left empty."""

COMMITS = AccountingLevel(
    "commits",
    "committed offsets alone",
    has_work=False,
    cannot_judge={
        **dict.fromkeys(
            (
                "lost",
                "failed",
                "duplicated",
                "reordered",
                "time_lag_p95_seconds",
                "time_lag_p99_seconds",
            ),
            _NO_WORK,
        ),
        **dict.fromkeys(("standstill_seconds", "lag_falls_at_full_parallelism"), _STEPS),
        **_OF_OWNERS,
    },
)

OUTPUT = AccountingLevel(
    "output",
    "the consumer's output topic",
    has_work=True,
    cannot_judge={"failed": _NO_REPORT, **_OF_OWNERS},
)

LEDGER = AccountingLevel(
    "ledger",
    "the ledger that the consumer writes",
    has_work=True,
    cannot_judge={"failed": _NO_REPORT, **_OF_OWNERS},
)

LEVELS: Mapping[str, AccountingLevel] = {level.name: level for level in (COMMITS, OUTPUT, LEDGER)}


def knows_work(name: LevelName | None) -> bool:
    """Return whether a level knows which messages were processed; None: lagbench's consumers."""
    return name is None or LEVELS[name].has_work


def level_of(name: LevelName) -> AccountingLevel:
    """Return the level of this name."""
    return LEVELS[name]


SPARK_MASTER = "spark-stream-master"
"""Deployment and Service. Not ``spark-master``: a Service of that name would give each pod a
variable SPARK_MASTER_PORT with a URL, which Spark takes for its port."""
SPARK_MASTER_PORT = 7077
SPARK_DRIVER = "spark-stream-driver"
LEAST_HEAP_MEBIBYTES = 450
"""Spark rejects an executor with less: 1.5 times its reserve of 300 MiB."""


class SparkFlags(StrictModel):
    """The settings that driver and workers get as flags of the same names."""

    trigger_seconds: float = Field(
        2.0, ge=0.1, le=3600, description="a micro-batch starts this long after the one before"
    )
    cores_per_worker: int = Field(
        1, ge=1, le=64, description="tasks at a time in one worker; each is one partition"
    )
    worker_memory_mebibytes: int = Field(
        512, ge=LEAST_HEAP_MEBIBYTES, le=65_536, description="heap of a worker's executor"
    )
    driver_memory_mebibytes: int = Field(
        640, ge=LEAST_HEAP_MEBIBYTES, le=65_536, description="heap of the driver"
    )
    max_messages_per_trigger: int | None = Field(
        None, ge=1, description="most messages in a batch; None: all that are there"
    )
    dynamic_allocation_min: int | None = Field(
        None,
        ge=1,
        le=64,
        description="fewest executors with Spark's dynamic allocation, which starts more on the "
        "workers that are there while tasks wait (spark.dynamicAllocation.minExecutors); "
        "None: an executor on each worker",
    )
    decommission: bool = Field(
        True,
        description="on SIGTERM a worker takes no new task and ends its own first "
        "(spark.decommission.enabled); off: it just leaves",
    )


PYTHON_SIDE_MEBIBYTES = 160
"""Of one task's Python process with its libraries; 120 to 175 measured."""
JVM_SIDE_MEBIBYTES = 350
"""Of an executor beside its heap, of the worker's own JVM and of the pod's program."""
DRIVER_SIDE_MEBIBYTES = 350
"""Of the driver beside its heap: Python and the rest of the JVM."""
MASTER_MEBIBYTES = 256


def worker_mebibytes(spark: SparkFlags) -> int:
    """Return the memory of one worker's pod: two JVMs, and a Python process for each task."""
    python = PYTHON_SIDE_MEBIBYTES * (spark.cores_per_worker + 1)  # and the one that forks them
    return spark.worker_memory_mebibytes + JVM_SIDE_MEBIBYTES + python


BATCH_OVERHEAD_SECONDS = 0.6
"""Of a micro-batch without messages: planning, two writes to the checkpoint, the tasks' start.
An estimate: no run on an idle machine has measured it."""


def batch_seconds(trigger_seconds: float, rate: float, capacity: float) -> float:
    """Return the time of a batch at an even ``rate`` below the workers' ``capacity``."""
    if rate >= capacity:
        return math.inf
    within = BATCH_OVERHEAD_SECONDS + rate * trigger_seconds / capacity
    if within <= trigger_seconds:
        return within
    return BATCH_OVERHEAD_SECONDS / (1 - rate / capacity)


def published_lag_seconds(trigger_seconds: float, rate: float, capacity: float) -> float:
    """Return how many seconds of traffic the published lag shows at the top of its saw."""
    took = batch_seconds(trigger_seconds, rate, capacity)
    return took + max(trigger_seconds, took)


class SparkConsumer(SparkFlags):
    """The settings of consumer.kind spark."""


KindName = Literal["stand-in", "spark", "own"]
_NO_GROUP = "Spark's consumers join no group: Spark itself assigns partitions to tasks"
_NO_MEMBERS = "the group of a Spark consumer has no members, so nothing rebalances"
_OWN_SETTING = "only with consumer.kind spark"
_ONLY_OWN: Mapping[str, str] = dict.fromkeys(OWN_FIELDS, "only with consumer.kind own")
_YOUR_CODE = "your own code decides it"
_YOUR_MANIFEST = "your manifest says it"


@dataclass(frozen=True, slots=True)
class ConsumerKind:
    """One kind of consumer."""

    name: KindName
    workload: str
    """Folder of ``k8s/base`` with the Deployment that the policy scales."""
    before: tuple[str, ...] = ()
    """Folders of helpers that run before the scaled pods, in the order of their start."""
    after: tuple[str, ...] = ()
    """The same behind them; at the end they stop first."""
    has_members: bool = True
    """True: the scaled pods are the members of the run's group, and own its partitions."""
    has_reports: bool = True
    """True: its pods report their partitions, commits and end; else the level of accounting says
    what is known."""
    not_asked: Mapping[str, str] = field(default_factory=dict)
    """SLOs that this kind cannot have, each with the reason."""
    not_taken: Mapping[str, str] = field(default_factory=dict)
    """Fields of ``consumer`` that mean nothing here, each with the reason."""
    not_played: Mapping[ActionKind, str] = field(default_factory=dict)
    """Actions that cannot be played, each with the reason."""

    @property
    def reports_owners(self) -> bool:
        """True: its pods report which partitions they own."""
        return self.has_members and self.has_reports

    def problems(self, given: Collection[str], actions: Collection[ActionKind]) -> Iterator[str]:
        """Yield the settings and actions that this kind does not take."""
        of_kind = f"with consumer.kind {self.name}"
        for name, reason in self.not_taken.items():
            if name in given:
                yield f"consumer.{name} must be left out {of_kind}: {reason}"
        for number, action in enumerate(actions):
            if action in self.not_played:
                why = self.not_played[action]
                yield f"actions.{number}.kind must be another one {of_kind}: {why}"


STAND_IN = ConsumerKind("stand-in", "consumer", not_taken={"spark": _OWN_SETTING, **_ONLY_OWN})

SPARK = ConsumerKind(
    "spark",
    "spark-stream-worker",
    before=(SPARK_MASTER,),
    after=(SPARK_DRIVER,),
    has_members=False,
    not_asked={
        "rebalance_dip_percent": _NO_MEMBERS,
        "rebalance_area_seconds": _NO_MEMBERS,
        "rebalance_recovery_seconds": _NO_MEMBERS,
        "lag_falls_at_full_parallelism": "published lag is a saw: it rises during every batch",
        "surplus_pods_idle": f"{_NO_GROUP}, so no pod is permanently without one",
    },
    not_taken={
        **_ONLY_OWN,
        "work": "a task of Spark plans its writes by the schedule",
        "balancer": _NO_GROUP,
        "commit": "Spark commits nothing: its checkpoint has the offsets",
        "static_membership": _NO_GROUP,
        "graceful_shutdown": "consumer.spark.decommission says how a worker leaves",
        "workload": "the workers are a Deployment",
        "start_seconds": "a worker takes the time that its two JVMs take",
    },
    not_played={
        "broker_unreachable": "only the stand-in's way to Kafka leads through the broker proxy"
    },
)

OWN = ConsumerKind(
    "own",
    "consumer",
    has_reports=False,
    not_taken={
        "spark": _OWN_SETTING,
        "work": _YOUR_CODE,
        "balancer": _YOUR_CODE,
        "commit": _YOUR_CODE,
        "static_membership": _YOUR_CODE,
        "graceful_shutdown": _YOUR_CODE,
        "shutdown_timeout_seconds": "terminationGracePeriodSeconds of your manifest says it",
        "workload": "a Deployment is the kind of workload that is read",
        "start_seconds": "your consumer takes the time that it takes",
        "cpu_request_millicores": _YOUR_MANIFEST,
        "memory_request_mebibytes": _YOUR_MANIFEST,
    },
    not_played={
        "broker_unreachable": "only the stand-in's way to Kafka leads through the broker proxy",
        "slow_downstream": "what your consumer writes to is not lagbench's",
    },
)

KINDS: Mapping[str, ConsumerKind] = {kind.name: kind for kind in (STAND_IN, SPARK, OWN)}


def kind_of(name: KindName) -> ConsumerKind:
    """Return the kind of this name."""
    return KINDS[name]
