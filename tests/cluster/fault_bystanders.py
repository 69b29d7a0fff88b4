"""What others have in the cluster and in Kafka, and a look at whether a run touched or left any."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lagbench.adapters.kafka.kafka_admin import KafkaAdmin, TopicSpec
from lagbench.core.scenario.run_names import NAMESPACE, RUN_ID_LABEL
from lagbench.embedded.broker import Broker
from tests.cluster.cluster_rehearsal import kubectl
from tests.cluster.rig.rig import Rig
from tests.eventually import eventually

OTHERS = "other-team"
_THEIRS = "bystander"
MADE_BY_CONTROLLERS = frozenset({"ConfigMap/kube-root-ca.crt", "ServiceAccount/default"})
"""The objects of a new namespace, a while after its creation."""
BUILT_IN = (
    "deployments,replicasets,jobs,pods,services,configmaps,secrets,serviceaccounts,roles,"
    "rolebindings,poddisruptionbudgets,persistentvolumeclaims,horizontalpodautoscalers"
)
_ALL = f"{BUILT_IN},scaledobjects.keda.sh,triggerauthentications.keda.sh"
_VERSIONS = (
    '-o=jsonpath={range .items[*]}{.kind}/{.metadata.name} {.metadata.resourceVersion}{"\\n"}{end}'
)


@dataclass(frozen=True)
class Bystanders:
    """Objects of somebody else in the run's namespace and in another one, and a topic."""

    rig: Rig
    broker: Broker

    def settle(self) -> None:
        """Make them, and wait until no controller writes to them any more."""
        for namespace in (NAMESPACE, OTHERS):
            if not kubectl(self.rig, "get", "namespace", namespace, "--ignore-not-found"):
                kubectl(self.rig, "create", "namespace", namespace)
            where = ("-n", namespace)
            kubectl(self.rig, *where, "create", "configmap", _THEIRS, "--from-literal=a=b")
            # No replicas: a node that is drained may take their pods, and rightly.
            deployment = ("create", "deployment", _THEIRS, "--image=none", "--replicas=0")
            kubectl(self.rig, *where, *deployment)
        with KafkaAdmin(self.broker.bootstrap_servers) as admin:
            admin.create_topics([TopicSpec(_THEIRS, 1, {})])
        awaited = {f"{OTHERS}/{name}" for name in MADE_BY_CONTROLLERS}
        seen: list[dict[str, str]] = [{}, self.versions()]

        def is_quiet() -> bool:
            seen.append(self.versions())
            return awaited <= seen[-1].keys() and seen[-1] == seen[-2] == seen[-3]

        eventually(is_quiet, "bystanders that nobody changes")

    def remove(self) -> None:
        """Take them away."""
        kubectl(self.rig, "-n", NAMESPACE, "delete", "configmap,deployment", _THEIRS)
        kubectl(self.rig, "delete", "namespace", OTHERS, "--wait=false")
        with KafkaAdmin(self.broker.bootstrap_servers) as admin:
            admin.delete_topics([_THEIRS])

    def versions(self) -> dict[str, str]:
        """Return the version of each of their objects, which any write would change."""
        found = {f"{OTHERS}/{name}": version for name, version in objects(self.rig, OTHERS).items()}
        mine = objects(self.rig, NAMESPACE).items()
        return found | {name: version for name, version in mine if _THEIRS in name}

    def left_by_run(self, run_id: str) -> list[str]:
        """Return what runs have left in the namespace, and this one in Kafka."""
        found = list(objects(self.rig, NAMESPACE, "-l", RUN_ID_LABEL))
        with KafkaAdmin(self.broker.bootstrap_servers) as admin:
            named = [*admin.topic_names(""), *admin.group_ids("")]
        assert _THEIRS in named
        return found + [name for name in named if run_id in name]


def objects(rig: Rig, namespace: str, *selection: str, kinds: str = _ALL) -> Mapping[str, str]:
    """Return ``Kind/name`` with the version of the objects of a namespace."""
    reported = kubectl(rig, "-n", namespace, "get", kinds, *selection, _VERSIONS)
    return dict(line.rsplit(" ", 1) for line in reported.splitlines() if line)
