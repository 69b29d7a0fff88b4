"""The conditions that a task waits for: lag, members of a group, replicas, rebalances."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lagbench.adapters.kube.workloads import policy_in_force
from lagbench.core.cluster.policy_manifest import HPA, SCALED_OBJECT
from lagbench.core.keda.object.scaled_object_rules import hpa_name
from lagbench.core.live.run_state import late_commit
from lagbench.core.measures.evidence.pod_timeline import FINAL_PHASES
from lagbench.core.measures.rebalance_episodes import GroupLook, WatchedGroup
from lagbench.core.scenario.run_names import RUN_ID_LABEL
from lagbench.core.workload_state import is_rolled_out, selector_string, wanted_replicas
from lagbench.errors import NotReady
from lagbench_airflow.triggers.condition import Condition, KeptClients, Reading

if TYPE_CHECKING:
    from lagbench.adapters.kafka.kafka_admin import GroupMember, GroupSnapshot

WITHOUT_MEMBERS = ("EMPTY", "DEAD")


@dataclass(kw_only=True)
class Lag(Condition):
    """Messages that a group has not committed: at most the threshold, or above it.

    The total counts, ``per_partition`` the partition with the most. Waiting for lag above it is
    moot once the traffic of the producer ``job`` has ended, if there is one. ``late_until_at``:
    end of the wait for a consumer that is the user's; what it leaves uncommitted is said.
    """

    topic: str
    group: str
    threshold_records: int
    is_above: bool
    kafka_conn_id: str = "kafka_default"
    per_partition: bool = False
    job: str = ""
    traffic_ends_at: float | None = None
    kubernetes_conn_id: str = "kubernetes_default"
    late_until_at: float | None = None

    def __post_init__(self) -> None:
        """Begin before the first reading."""
        self._last: tuple[int, float] | None = None

    def goal(self) -> str:
        """Return the state in words."""
        lag = "lag of each partition" if self.per_partition else "total lag"
        if self.is_above:
            lag = "a partition's lag" if self.per_partition else lag
        bound = "above" if self.is_above else "at most"
        return f"{lag} of group {self.group} {bound} {self.threshold_records:,}"

    def read(self, clients: KeptClients) -> Reading:
        """Compare the lag with the threshold."""
        lags = clients.lag_reader(self.kafka_conn_id).lags(self.group, self.topic)
        total, largest = sum(lags.values()), max(lags.values(), default=0)
        lag = largest if self.per_partition else total
        is_met = lag > self.threshold_records if self.is_above else lag <= self.threshold_records
        seen = {"total_lag": total, "largest_partition_lag": largest}
        if self._last is None or self._last[0] != total:
            self._last = total, time.time()
        if self.late_until_at is not None:
            idle, most = time.time() - self._last[1], self.late_until_at - self._last[1]
            if waits := late_commit(idle, total, waited_seconds=idle, most_seconds=most):
                return Reading(is_met, {**seen, "waits_for": waits})
        if is_met or not self.job:
            return Reading(is_met, seen)
        is_moot = self.traffic_ends_at is not None and time.time() >= self.traffic_ends_at
        is_moot = is_moot or clients.job_end(self.kubernetes_conn_id, self.job) is not None
        return Reading(is_met=False, seen=seen, is_moot=is_moot)


@dataclass(kw_only=True)
class ReplicasSettled(Condition):
    """Wanted, available and existing pods are equal, from ``least`` to ``most``.

    All are of the newest template: a rollout is a change in progress. ``most`` None: no limit;
    ``namespace`` None: the namespace of the connection. ``run_id``: only pods with the run's label
    count, because those of others may have the same name and ``app``.
    """

    workload: str
    kubernetes_conn_id: str = "kubernetes_default"
    kind: str = "Deployment"
    namespace: str | None = None
    least: int = 0
    most: int | None = None
    run_id: str | None = None

    def goal(self) -> str:
        """Return the state in words."""
        most = "any number" if self.most is None else self.most
        count = self.least if self.least == self.most else f"{self.least} to {most}"
        return f"{count} pods of {self.kind} {self.workload}, all in place"

    def read(self, clients: KeptClients) -> Reading:
        """Count the pods; a terminating pod exists and counts, one that has ended does not.

        A node short of memory leaves the evicted pods behind as failed.
        """
        kube = clients.kube(self.kubernetes_conn_id, self.namespace)
        workload = kube.get(self.kind, self.workload)
        if workload is None:
            return Reading(is_met=False, seen={self.kind: f"{self.workload} does not exist"})
        own = selector_string((workload.get("spec") or {}).get("selector") or {})
        of_run = "" if self.run_id is None else f"{RUN_ID_LABEL}={self.run_id}"
        pods = [
            pod
            for pod in kube.list("Pod", label_selector=",".join(filter(None, (own, of_run))))
            if str(pod["metadata"]["name"]).startswith(f"{self.workload}-")
            and (pod.get("status") or {}).get("phase") not in FINAL_PHASES
        ]
        wanted, status = wanted_replicas(workload), workload.get("status") or {}
        is_in_range = self.least <= wanted and (self.most is None or wanted <= self.most)
        is_still = is_rolled_out(workload) and len(pods) == wanted
        seen = {
            "wanted": wanted,
            "updated": status.get("updatedReplicas") or 0,
            "available": status.get("availableReplicas") or 0,
            "existing": len(pods),
            "at_rest": f"{self.least} to {'any' if self.most is None else self.most}",
        }
        return Reading(is_met=is_still and is_in_range, seen=seen)


@dataclass(kw_only=True)
class GroupStable(Condition):
    """The group is stable, with ``members`` members (None: any number above 0).

    With a ``topic`` each of its partitions has exactly one owner. With 0 members the group is empty
    or does not exist.
    """

    group: str
    topic: str
    kafka_conn_id: str = "kafka_default"
    members: int | None = None

    def goal(self) -> str:
        """Return the state in words."""
        if self.members == 0:
            return f"group {self.group} empty"
        wanted = "" if self.members is None else f" with {self.members} members"
        owned = f", each partition of {self.topic} with one owner" if self.topic else ""
        return f"group {self.group} stable{wanted}{owned}"

    def read(self, clients: KeptClients) -> Reading:
        """Describe the group and judge it."""
        partitions, group = self._described(clients)
        return self._judged(group, partitions, self.members)

    def _described(self, clients: KeptClients) -> tuple[int | None, GroupSnapshot]:
        """Return the partitions of the topic (None without a topic) and the group.

        The partitions come first, because that fails while the broker is down: a request to a
        group's coordinator that times out then can end the process (see
        adapters/kafka/kafka_lag.py).
        """
        admin, partitions = clients.kafka_admin(self.kafka_conn_id), None
        if not self.topic:
            admin.check_reachable()
        elif (partitions := admin.partition_counts([self.topic]).get(self.topic)) is None:
            raise NotReady(f"the topic {self.topic} does not exist")
        return partitions, admin.describe_group(self.group)

    def _judged(self, group: GroupSnapshot, partitions: int | None, wanted: int | None) -> Reading:
        seen: dict[str, Any] = {
            "state": group.state,
            "members": len(group.members),
            "wanted_members": "any" if wanted is None else wanted,
        }
        is_complete = wanted in (None, len(group.members))
        if partitions is not None:
            owned = sorted(number for member in group.members for number in self._owned(member))
            seen |= {"owned_partitions": len(owned), "partitions": partitions}
            is_complete = is_complete and owned == list(range(partitions))
        if wanted == 0:
            return Reading(is_met=group.state in WITHOUT_MEMBERS, seen=seen)
        return Reading(is_met=group.is_stable and is_complete, seen=seen)

    def _owned(self, member: GroupMember) -> list[int]:
        return [number for name, number in member.partitions if name == self.topic]


@dataclass(kw_only=True)
class TooManyRebalances(Condition):
    """The group has rebalanced more often than allowed since the watch has begun.

    ``watched`` is the watch so far (JSON): the task looks before it defers, so that the window
    begins with a known group. A triggerer that takes the wait over begins there again; the time
    without a look is then part of the result. It is not met before ``fires_from_at``.
    """

    group: str
    max_rebalances: int
    kafka_conn_id: str = "kafka_default"
    watched: dict[str, Any] | None = None
    fires_from_at: float = 0.0

    def __post_init__(self) -> None:
        """Continue the watch so far."""
        begun = self.watched
        self._now = None if begun is None else WatchedGroup.model_validate(begun)

    def goal(self) -> str:
        """Return the state in words."""
        return f"more than {self.max_rebalances} rebalances of group {self.group}"

    def read(self, clients: KeptClients) -> Reading:
        """Look once and count."""
        now = self._looked(clients)
        is_met = now.rebalances > self.max_rebalances and time.time() >= self.fires_from_at
        return Reading(is_met=is_met, seen={"watched": now.model_dump(mode="json")})

    def _looked(self, clients: KeptClients) -> WatchedGroup:
        admin = clients.kafka_admin(self.kafka_conn_id)
        admin.check_reachable()  # see GroupStable
        group = admin.describe_group(self.group)
        # A static member comes back with another member id, and nothing is assigned again.
        holdings = ((m.instance_id or m.member_id, m.partitions) for m in group.members)
        look = GroupLook.of(time.time(), group.state, holdings)
        self._now = WatchedGroup.first(look) if self._now is None else self._now.after(look)
        return self._now


@dataclass(kw_only=True)
class Rebalanced(TooManyRebalances):
    """A rebalance of the group was seen since the look before; of an event, not of a wait."""

    max_rebalances: int = 0

    def goal(self) -> str:
        """Return the state in words."""
        return f"a rebalance of group {self.group}"

    def read(self, clients: KeptClients) -> Reading:
        """Look once; compare with the look before."""
        before, now = self._now, self._looked(clients)
        members = len(now.last.holdings)
        seen = {"rebalances": now.rebalances, "state": now.last.state, "members": members}
        return Reading(before is not None and now.rebalances > before.rebalances, seen)


@dataclass(kw_only=True)
class ReplicasAtCeiling(Condition):
    """The autoscaler of that name wants as many replicas as it may have.

    ``scaled_object`` is the name of a ScaledObject or of an HPA; ``namespace`` None: the namespace
    of the connection.
    """

    scaled_object: str
    kubernetes_conn_id: str = "kubernetes_default"
    namespace: str | None = None

    def goal(self) -> str:
        """Return the state in words."""
        return f"replicas at the ceiling of {self.scaled_object}"

    def read(self, clients: KeptClients) -> Reading:
        """Read the HPA."""
        kube = clients.kube(self.kubernetes_conn_id, self.namespace)
        policy = policy_in_force(kube, self.scaled_object)
        if policy is None:
            return Reading(is_met=False, seen={"policy": f"{self.scaled_object} does not exist"})
        name = hpa_name(policy) if policy["kind"] == SCALED_OBJECT else self.scaled_object
        hpa = kube.get(HPA, name) or {}
        wanted = (hpa.get("status") or {}).get("desiredReplicas")
        ceiling = (hpa.get("spec") or {}).get("maxReplicas")
        is_met = wanted is not None and wanted == ceiling
        return Reading(is_met, {"wanted": wanted, "ceiling": ceiling})
