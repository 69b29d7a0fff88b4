"""Condition on the consumer group of a run: one member for each pod, and no others."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from lagbench.adapters.kube.ready_pods import require_lasting
from lagbench.core.scenario import RUN_ID_LABEL, RunNames, client_pattern
from lagbench.errors import WrongInput
from lagbench_airflow.triggers.condition import Reading
from lagbench_airflow.triggers.consumer_group import WITHOUT_MEMBERS, ConsumerGroupStableTrigger

if TYPE_CHECKING:
    from lagbench.adapters.kafka.kafka_groups import GroupMember


class RunGroupStableTrigger(ConsumerGroupStableTrigger):
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
        names = RunNames(run_id, is_second=is_second)
        super().__init__(
            group=names.group,
            topic=names.events_topic,
            members=None,  # as many as the workload wants, which read() looks up
            kafka_conn_id=kafka_conn_id,
            **bounds,
        )
        self.run_id, self.is_second, self.workload = run_id, is_second, workload
        self.refuses_strangers, self.has_members = refuses_strangers, has_members
        self.client_id, self.members_per_pod = client_id, members_per_pod
        self.kubernetes_conn_id = kubernetes_conn_id

    def parameters(self) -> dict[str, Any]:
        """Return the arguments; the rest follows from the run."""
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
        """Compare members and owned partitions with the pods of the run."""
        names = RunNames(self.run_id, is_second=self.is_second)
        kube = self.clients.kube(self.kubernetes_conn_id)
        workload = kube.get(self.workload, names.consumers)
        if workload is None:  # a group without members is not what it wants
            return Reading(is_met=False, seen={self.workload: f"{names.consumers} does not exist"})
        wanted = int((workload.get("spec") or {}).get("replicas") or 0)
        partitions = self.partitions()
        group = self.described()
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
            ready = (workload.get("status") or {}).get("readyReplicas") or 0
            is_met = group.state in WITHOUT_MEMBERS and ready == wanted
            return Reading(
                is_met=is_met, seen={"state": group.state, "ready": ready, "wanted": wanted}
            )
        reading = self.judged(group, partitions=partitions, wanted=wanted * self.members_per_pod)
        if reading.is_met:
            return reading
        # Read only then, so that a group that holds costs the API server nothing.
        pods = kube.list("Pod", label_selector=f"{RUN_ID_LABEL}={self.run_id}")
        if self.refuses_strangers:  # before the spike: an action may end pods later
            require_lasting(kube, pods, names.consumers)
        known = {None, *(pod["metadata"]["name"] for pod in pods)}
        others = [member for member in group.members if self._pod_of(member) not in known]
        texts = [_member_text(member, names.events_topic) for member in others]
        seen = reading.seen | ({"members_without_a_pod": texts} if texts else {})
        return Reading(is_met=False, seen=seen)

    def _may_be_own(self, member: GroupMember, own_pods: str) -> bool:
        """Return whether the member's client id can be of a pod whose name begins so."""
        if self.client_id is None:
            return member.client_id.startswith(own_pods)
        if "{pod}" not in self.client_id:
            return True
        name = rf"{re.escape(own_pods)}[-a-z0-9.]*"
        return client_pattern(self.client_id, name).fullmatch(member.client_id) is not None

    def _pod_of(self, member: GroupMember) -> str | None:
        """Return the pod that the member's client id names; None: it need not name one."""
        if self.client_id is None:
            return member.client_id
        if "{pod}" not in self.client_id:
            return None
        found = client_pattern(self.client_id, r"[-a-z0-9.]+").fullmatch(member.client_id)
        return member.client_id if found is None else found["pod"]


def _member_text(member: GroupMember, topic: str) -> str:
    owned = [number for name, number in member.partitions if name == topic]
    held = f"partitions {', '.join(map(str, owned))}" if owned else "no partition"
    return f"client {member.client_id} on host {member.host} with {held}"
