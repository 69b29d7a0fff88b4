"""Condition on the run's consumer group: stable, complete, every partition owned once."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from lagbench.core.scenario import RUN_ID_LABEL, RunNames, client_pattern
from lagbench.errors import WrongInput
from lagbench_airflow.triggers.condition import ConditionTrigger, Reading

if TYPE_CHECKING:
    from lagbench.adapters.kafka.kafka_groups import GroupMember
    from lagbench.adapters.kube.kube import Kube

_WITHOUT_MEMBERS = ("EMPTY", "DEAD")


class ConsumerGroupStableTrigger(ConditionTrigger):
    """Fires when the group is stable with one member per wanted replica.

    A member whose client id cannot be the name of a pod of the workload is rejected at once: the
    group belongs to this run alone, so waiting could at best end with an undetermined run. (With
    ``refuses_strangers`` off, for an ended run, the trigger waits for it as for any other.) A
    member with a possible name, of a pod that no longer exists, may be waiting for the end of its
    session.
    """

    def __init__(
        self,
        *,
        run_id: str,
        workload: str,
        kafka_conn_id: str,
        kubernetes_conn_id: str,
        refuses_strangers: bool = True,
        is_second: bool = False,
        has_members: bool = True,
        client_id: str | None = None,
        members_per_pod: int = 1,
        **bounds: float,
    ) -> None:
        """Name the run, which of its groups, the kind of its workload and the connections.

        Without ``has_members`` no member may be there: the group only has published offsets.
        ``client_id`` is that of a user's own members, in which ``{pod}`` stands for the pod's name;
        without it their names mean nothing. None: a member has the name of its pod.
        """
        super().__init__(**bounds)
        self.run_id, self.is_second, self.workload = run_id, is_second, workload
        self.refuses_strangers, self.has_members = refuses_strangers, has_members
        self.client_id, self.members_per_pod = client_id, members_per_pod
        self.kafka_conn_id = kafka_conn_id
        self.kubernetes_conn_id = kubernetes_conn_id

    def parameters(self) -> dict[str, Any]:
        """Return the arguments."""
        return {
            "run_id": self.run_id,
            "is_second": self.is_second,
            "workload": self.workload,
            "refuses_strangers": self.refuses_strangers,
            "has_members": self.has_members,
            "client_id": self.client_id,
            "members_per_pod": self.members_per_pod,
            "kafka_conn_id": self.kafka_conn_id,
            "kubernetes_conn_id": self.kubernetes_conn_id,
        }

    def read(self) -> Reading:
        """Compare members and owned partitions with the expected ones."""
        names = RunNames(self.run_id, is_second=self.is_second)
        kube = self.clients.kube(self.kubernetes_conn_id)
        workload = kube.get(self.workload, names.consumers) or {}
        wanted = int((workload.get("spec") or {}).get("replicas") or 0)
        admin = self.clients.kafka_admin(self.kafka_conn_id)
        # First, because it fails while the broker is down: a request to a group's coordinator that
        # times out then can end the process (see adapters/kafka/kafka_lag.py).
        partitions = admin.partition_counts([names.events_topic]).get(names.events_topic, 0)
        group = admin.describe_group(names.group)
        owned = sorted(
            partition
            for member in group.members
            for topic, partition in member.partitions
            if topic == names.events_topic
        )
        own_pods = f"{names.consumers}-"  # begins the name of every pod that the workload creates
        strangers = [m for m in group.members if not self._may_be_own(m, own_pods)]
        if not self.has_members:
            strangers = list(group.members)
        if strangers and self.refuses_strangers:
            raise WrongInput(
                where=f"consumer group {names.group}",
                field="members",
                value="; ".join(_member_text(member, names.events_topic) for member in strangers),
                allowed="the run's own pods; stop these consumers and start the run again",
            )
        if not self.has_members:
            status = workload.get("status") or {}
            ready = status.get("readyReplicas") or 0
            is_met = group.state in _WITHOUT_MEMBERS and ready == wanted
            return Reading(
                is_met=is_met, seen={"state": group.state, "ready": ready, "wanted": wanted}
            )
        if wanted == 0:
            is_met = group.state in _WITHOUT_MEMBERS
        else:
            due = wanted * self.members_per_pod
            is_complete = len(group.members) == due and owned == list(range(partitions))
            is_met = group.is_stable and is_complete
        seen = {
            "state": group.state,
            "members": len(group.members),
            "wanted_members": wanted * self.members_per_pod,
            "owned_partitions": len(owned),
            "partitions": partitions,
        }
        if not is_met:  # read only then, so that an ordinary wait costs the API server nothing
            seen |= _of_no_pod(group.members, self._pods(kube, names.run_id), names.events_topic)
        return Reading(is_met=is_met, seen=seen)

    def _may_be_own(self, member: GroupMember, own_pods: str) -> bool:
        """Return whether the member's client id can be of a pod whose name begins so."""
        if self.client_id is None:
            return member.client_id.startswith(own_pods)
        if "{pod}" not in self.client_id:
            return True
        name = rf"{re.escape(own_pods)}[-a-z0-9.]*"
        return client_pattern(self.client_id, name).fullmatch(member.client_id) is not None

    def _pods(self, kube: Kube, run_id: str) -> set[str]:
        found = kube.list("Pod", label_selector=f"{RUN_ID_LABEL}={run_id}")
        return {pod["metadata"]["name"] for pod in found}


def _of_no_pod(members: Iterable[GroupMember], pods: set[str], topic: str) -> dict[str, list[str]]:
    """Return the group's members without an existing pod, for the message; empty if none."""
    others = [_member_text(member, topic) for member in members if member.client_id not in pods]
    return {"members_without_a_pod": others} if others else {}


def _member_text(member: GroupMember, topic: str) -> str:
    owned = [number for name, number in member.partitions if name == topic]
    held = f"partitions {', '.join(map(str, owned))}" if owned else "no partition"
    return f"client {member.client_id} on host {member.host} with {held}"
