"""List the kinds of consumers: their manifests, what they do not have, what they do not take.

This table is the one place for what differs between kinds. A new kind adds a record here, the
folder of its workload in ``k8s/base``, and, if it has needs of its own, a line in ``core/plan``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from lagbench.core.scenario.actions import ActionKind
from lagbench.core.scenario.own_consumer import OWN_FIELDS
from lagbench.core.scenario.spark_consumer import SPARK_DRIVER, SPARK_MASTER

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
        """Yield the settings and actions that this kind does not take.

        :param given: names of the fields of ``consumer`` that differ from their default.
        """
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
        "balancer": _NO_GROUP,
        "commit": "Spark commits nothing: its checkpoint has the offsets",
        "static_membership": _NO_GROUP,
        "graceful_shutdown": "consumer.spark.decommission says how a worker leaves",
        "workload": "the workers are a Deployment",
        "start_seconds": "a worker takes the time that its two JVMs take",
    },
    not_played={
        "broker_unreachable": "only the stand-in's way to Kafka leads through the broker proxy",
    },
)
OWN = ConsumerKind(
    "own",
    "consumer",
    has_reports=False,
    not_taken={
        "spark": _OWN_SETTING,
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
