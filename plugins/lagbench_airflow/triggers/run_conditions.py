"""The conditions of a run: its producer's and player's Jobs, an abort, its own group."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lagbench.adapters.kafka.telemetry_topic import first_record
from lagbench.adapters.kube.workloads import require_lasting
from lagbench.core.scenario.own_consumer import client_pattern
from lagbench.core.scenario.run_names import RUN_ID_LABEL, RunNames
from lagbench.core.telemetry.records_of_programs import StreamFinished
from lagbench.errors import WrongInput
from lagbench_airflow.hooks import kafka
from lagbench_airflow.triggers.condition import Condition, KeptClients, Reading, made
from lagbench_airflow.triggers.conditions import WITHOUT_MEMBERS, GroupStable

if TYPE_CHECKING:
    from lagbench.adapters.kafka.kafka_admin import GroupMember


@dataclass(kw_only=True)
class TrafficFinished(Condition):
    """The planned window of the producer's Job has ended, or the Job has.

    ``ends_at`` (unix seconds) is the end of the planned window if a tail follows it; None: the
    end of the Job is the end of the traffic.
    """

    job: str
    ends_at: float | None
    kubernetes_conn_id: str = "kubernetes_default"

    def goal(self) -> str:
        """Return the state in words."""
        return f"the end of the planned traffic of Job {self.job}"

    def read(self, clients: KeptClients) -> Reading:
        """Check the clock and the Job."""
        end: str | None = clients.job_end(self.kubernetes_conn_id, self.job)
        if self.ends_at is not None and time.time() >= self.ends_at and end in (None, "gone"):
            end = "planned window ended"  # the Job outlives it, until the run deletes it
        if end == "gone":
            raise WrongInput(
                where=f"Job/{self.job}",
                field="existence",
                value="gone",
                allowed="a Job that stays until its traffic has ended; start a new run",
            )
        return Reading(is_met=end is not None, seen={"traffic": end or "running"})


@dataclass(kw_only=True)
class ActionsPlayed(Condition):
    """The player's Job has ended; at once if there is none (empty)."""

    job: str
    kubernetes_conn_id: str = "kubernetes_default"

    def goal(self) -> str:
        """Return the state in words."""
        return "the end of all actions"

    def read(self, clients: KeptClients) -> Reading:
        """Look at the Job."""
        if not self.job:
            return Reading(is_met=True, seen={"actions": "none"})
        end = clients.job_end(self.kubernetes_conn_id, self.job)
        is_moot = end in ("failed", "gone")
        return Reading(end == "complete", {"actions": end or "running"}, is_moot)


@dataclass(kw_only=True)
class UnlessAborted(Condition):
    """A condition (``written``) that is moot once a limit of the scenario's ``abort`` is broken.

    The producer's ``job`` then fails, and its last record in the ``telemetry`` topic has the limit.
    """

    awaited: list[Any]
    job: str
    telemetry: str
    kafka_conn_id: str = "kafka_default"
    kubernetes_conn_id: str = "kubernetes_default"

    def __post_init__(self) -> None:
        """Begin before the first reading."""
        self._awaited = made(self.awaited)
        self._aborted: str | None = None

    def goal(self) -> str:
        """Return the state in words."""
        return self._awaited.goal()

    def read(self, clients: KeptClients) -> Reading:
        """Look at the Job, once it has failed at its record, and else at what is awaited."""
        if self._aborted is None and clients.job_end(self.kubernetes_conn_id, self.job) == "failed":
            servers = kafka.KafkaHook(self.kafka_conn_id).bootstrap_servers
            finished = first_record(servers, self.telemetry, StreamFinished)
            self._aborted = finished.aborted if finished else ""
        if self._aborted:
            return Reading(is_met=False, seen={"aborted": self._aborted}, is_moot=True)
        return self._awaited.read(clients)


@dataclass(kw_only=True)
class RunGroupStable(GroupStable):
    """The group of a run is stable, with the members that the pods of its workload bring.

    A member whose client id cannot be the name of such a pod is rejected at once: the group belongs
    to this run alone, so waiting could at best end with an undetermined run. (With
    ``refuses_strangers`` off, for an ended run, it is waited for as for any other.) A member
    with a possible name, of a pod that no longer exists, may be waiting for the end of its session.

    Without ``has_members`` no member may be there: the group only has published offsets.
    ``client_id`` is that of a user's own members, in which ``{pod}`` stands for the pod's name;
    without it their names mean nothing. None: a member has the name of its pod.
    """

    run_id: str
    workload: str
    kind: str
    kubernetes_conn_id: str = "kubernetes_default"
    refuses_strangers: bool = True
    has_members: bool = True
    client_id: str | None = None
    members_per_pod: int = 1

    @classmethod
    def of(cls, names: RunNames, **arguments: Any) -> RunGroupStable:
        """Return the condition of the group with these names."""
        return cls(
            run_id=names.run_id,
            group=names.group,
            topic=names.events_topic,
            workload=names.consumers,
            **arguments,
        )

    def goal(self) -> str:
        """Return the state in words."""
        ready = f"all pods of {self.kind} {self.workload} ready"
        return super().goal() if self.has_members else ready

    def read(self, clients: KeptClients) -> Reading:
        """Compare members and owned partitions with the pods of the run."""
        kube = clients.kube(self.kubernetes_conn_id)
        workload = kube.get(self.kind, self.workload)
        if workload is None:  # a group without members is not what it wants
            return Reading(is_met=False, seen={self.kind: f"{self.workload} does not exist"})
        wanted = int((workload.get("spec") or {}).get("replicas") or 0)
        partitions, group = self._described(clients)
        members = group.members
        strangers = [one for one in members if not (self.has_members and self.may_be_own(one))]
        if strangers and self.refuses_strangers:
            raise WrongInput(
                where=f"consumer group {self.group}",
                field="members",
                value="; ".join(map(self._text, strangers)),
                allowed="the run's own pods; stop these consumers and start the run again",
            )
        if not self.has_members:
            ready = (workload.get("status") or {}).get("readyReplicas") or 0
            is_met = group.state in WITHOUT_MEMBERS and ready == wanted
            return Reading(is_met, {"state": group.state, "ready": ready, "wanted": wanted})
        reading = self._judged(group, partitions, wanted * self.members_per_pod)
        if reading.is_met:
            return reading
        # Read only then, so that a group that holds costs the API server nothing.
        pods = kube.list("Pod", label_selector=f"{RUN_ID_LABEL}={self.run_id}")
        if self.refuses_strangers:  # before the spike: an action may end pods later
            require_lasting(kube, pods, self.workload)
        known = {None, *(pod["metadata"]["name"] for pod in pods)}
        others = [self._text(one) for one in members if self.pod_of(one) not in known]
        return Reading(False, reading.seen | ({"members_without_a_pod": others} if others else {}))

    def may_be_own(self, member: GroupMember) -> bool:
        """Return whether the member's client id can be of a pod that the workload has created."""
        pod = self.pod_of(member)
        return pod is None or pod.startswith(f"{self.workload}-")

    def pod_of(self, member: GroupMember) -> str | None:
        """Return the pod that the member's client id names, "" for none; None: it need not."""
        if self.client_id is None:
            return member.client_id
        if "{pod}" not in self.client_id:
            return None
        found = client_pattern(self.client_id, r"[-a-z0-9.]+").fullmatch(member.client_id)
        return "" if found is None else found["pod"]

    def _text(self, member: GroupMember) -> str:
        owned = self._owned(member)
        held = f"partitions {', '.join(map(str, owned))}" if owned else "no partition"
        return f"client {member.client_id} on host {member.host} with {held}"
