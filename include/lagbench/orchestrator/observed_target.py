"""Find what is to be observed: a Kafka, and the workload and policy of the group, read only."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lagbench.adapters.kafka.kafka_admin import GroupSnapshot, KafkaAdmin, ask_again
from lagbench.adapters.kafka.kafka_lag import open_admin, read_group_lag
from lagbench.adapters.kube.cluster_check import read_cluster_facts
from lagbench.adapters.kube.kube import Kube, Manifest
from lagbench.adapters.kube.kube_client import ApiDiscovery, log_in
from lagbench.core.cluster.cluster_settings import EMBEDDED
from lagbench.core.measures.model import Fidelity
from lagbench.core.object_meta import LAST_APPLIED
from lagbench.core.policy.policy import POLICY_VERSIONS
from lagbench.core.policy.review.cluster_facts import ClusterFacts, PolicyDocuments
from lagbench.core.scenario.run_names import NAMESPACE
from lagbench.core.scenario.scenario import Workload
from lagbench.core.workload_state import selector_string
from lagbench.embedded import bench
from lagbench.embedded.kafka_choice import named_settings
from lagbench.errors import LagbenchError, NotReady, UnknownKind, WrongInput
from lagbench.orchestrator.target import CONTEXT_ADVICE, access_of, find_target, require_known_sort
from lagbench.project import state_dir
from pod_program.kafka_settings import SERVERS, checked, read_settings

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

_ANSWER_SECONDS = 20.0
_BUSY_SECONDS = 120.0
"""A hundred members that join 2,000 partitions keep a broker busy for longer than one answer."""
_WORKLOADS: tuple[Workload, ...] = ("Deployment", "StatefulSet")
_STORED = ("name", "namespace", "labels", "annotations")


@dataclass(frozen=True, slots=True)
class ObservedPlace:
    """A namespace of a cluster, and how to log in there; only to read."""

    name: str
    kubeconfig: str | None
    context: str | None
    namespace: str
    fidelity: Fidelity

    def open_client(self) -> ApiClient:
        """Return a new client; it sends no request yet."""
        return log_in(self.kubeconfig, context=self.context, retries=0, advice=CONTEXT_ADVICE)

    def open_kube(self) -> contextlib.closing[Kube]:
        """Return a client of the namespace, to be closed."""
        return contextlib.closing(Kube(self.open_client(), namespace=self.namespace))

    def facts(self, policy: Manifest) -> ClusterFacts | None:
        """Return what of the namespace bears on the policy; None: this account may not read it."""
        with self.open_kube() as kube, contextlib.suppress(LagbenchError):
            return _facts(kube, [policy], self.name)
        return None


def target_facts(name: str, settings_file: Path | None, documents: Sequence[Any]) -> ClusterFacts:
    """Return the facts in a target's namespace that matter for the file's policies; read only."""
    cluster = find_target(name, settings_file)
    with find_place(name, None).open_kube() if cluster is None else cluster.open_kube() as kube:
        return _facts(kube, documents, name)


def _facts(kube: Kube, documents: Sequence[Any], source: str) -> ClusterFacts:
    """Read facts; the embedded bench serves few kinds, so one that lacks says nothing."""
    discovery, knows_kinds = ApiDiscovery(kube.api_client), source != EMBEDDED
    facts = read_cluster_facts(kube, discovery, documents, source=source, knows_kinds=knows_kinds)
    if not knows_kinds or not PolicyDocuments(documents, kube.namespace).has_policies:
        return facts  # on the embedded bench each policy names the version that it is scaled by
    return replace(facts, kubernetes=kube.server_version())


@dataclass(frozen=True, slots=True)
class ObservedWorkload:
    """The workload of the group, the labels of its pods, and the policy that scales it."""

    kind: Workload
    name: str
    pod_selector: str
    policy: Manifest | None
    policy_unknown: str = ""
    """Why an object that may scale the workload could not be read; empty: all were read."""

    @property
    def policy_name(self) -> str | None:
        """The kind and the name of the policy; None: nothing scales the workload."""
        if self.policy is None:
            return None
        return f"{self.policy['kind']} {self.policy['metadata']['name']}"


def find_place(target: str, namespace: str | None) -> ObservedPlace:
    """Return the namespace of a target: its context's, unless another one is given."""
    require_known_sort(target)
    if target == EMBEDDED:
        state = bench.running(state_dir())
        if state is None:
            raise NotReady("the embedded bench is not up: lagbench up, or no --target embedded")
        config = str(state.kubeconfig)
        return ObservedPlace(target, config, None, namespace or NAMESPACE, "processes")
    kubeconfig, context, of_context = access_of(target)
    namespace = namespace or of_context or NAMESPACE
    return ObservedPlace(target, kubeconfig, context, namespace, "kubernetes")


def kafka_settings(
    config_file: Path | None, bootstrap_servers: str | None, place: ObservedPlace | None
) -> dict[str, str]:
    """Return librdkafka's settings: of the file, else of the environment, else the bench's."""
    where = "command line"
    found: dict[str, str] = {}
    if config_file is not None:
        where, found = str(config_file), read_settings(config_file)
    elif (named := named_settings()) is not None:
        where, found = "environment", checked(named, where="environment")
    elif place is not None and place.name == EMBEDDED:
        state = bench.running(state_dir())
        found = {} if state is None else dict(state.kafka_settings)
    if bootstrap_servers is not None:
        found[SERVERS] = bootstrap_servers
    if not found.get(SERVERS):
        ways = "--kafka-config FILE, --bootstrap-servers, AIRFLOW_CONN_KAFKA_DEFAULT or "
        ways += "KAFKA_BOOTSTRAP_SERVERS"
        raise WrongInput(where=where, field=SERVERS, value="", allowed=f"host:port: by {ways}")
    return found


def require_group(settings: Mapping[str, Any], group: str, topic: str) -> GroupSnapshot:
    """Return the group as the broker describes it now."""
    with KafkaAdmin(settings, timeout_seconds=_ANSWER_SECONDS) as admin:
        admin.check_reachable()
        if topic not in admin.partition_counts([topic]):
            raise _refused("--topic", topic, "a topic that exists and this account may describe")

        def describe() -> GroupSnapshot:
            asked = admin.ask_for_group(group, limit_seconds=_ANSWER_SECONDS)
            return admin.group_answer(group, asked, wait_seconds=_ANSWER_SECONDS)

        found = ask_again(describe, for_seconds=_BUSY_SECONDS)
    if found.state == "DEAD":
        raise _refused("--group", group, "a group that exists")
    with contextlib.closing(open_admin(str(settings[SERVERS]), settings)) as client:
        ask_again(
            lambda: read_group_lag(client, group, topic, timeout_seconds=_ANSWER_SECONDS),
            for_seconds=_BUSY_SECONDS,
        )
    return found


def find_workload(
    kube: Kube, deployment: str | None, scaled_object: str | None
) -> ObservedWorkload:
    """Return the workload of the group; policy and target name each other."""
    policy, unknown = None, ""
    if scaled_object is not None:
        policy = kube.get("ScaledObject", scaled_object)
        if policy is None:
            raise _absent(kube, "--scaled-object", scaled_object)
        target = policy["spec"]["scaleTargetRef"]["name"]
        if deployment is not None and deployment != target:
            allowed = f"{target}, the scale target of ScaledObject {scaled_object}"
            raise _refused("--deployment", deployment, allowed)
        deployment = target
    name = str(deployment)
    for kind in _WORKLOADS:
        with contextlib.suppress(UnknownKind):  # localkube and old servers lack a kind
            found = kube.get(kind, name)
            if found is not None:
                if policy is None:
                    policy, unknown = _policy_of(kube, kind, name)
                selector = selector_string(found["spec"]["selector"])
                written = policy and _as_written(policy)
                return ObservedWorkload(kind, name, selector, written, unknown)
    raise _absent(kube, "--deployment", name)


def _absent(kube: Kube, field: str, value: str) -> WrongInput:
    place = f"the namespace {kube.namespace} (--namespace names another)"
    return _refused(field, value, f"an object in {place}")


def _refused(field: str, value: str, allowed: str) -> WrongInput:
    return WrongInput(where="command line", field=field, value=value, allowed=allowed)


def _policy_of(kube: Kube, kind: str, name: str) -> tuple[Manifest | None, str]:
    """Return the ScaledObject, else the HPA, that scales the workload; None: nothing is known to.

    The text says which of the two could not be read, and why; a kind that the cluster does not
    serve scales nothing.
    """
    unread: list[str] = []
    for policy_kind in POLICY_VERSIONS:
        try:
            for found in kube.list(policy_kind):
                target = found["spec"]["scaleTargetRef"]
                if target["name"] == name and target.get("kind", "Deployment") == kind:
                    return {"kind": policy_kind, **found}, "; ".join(unread)
        except UnknownKind:
            continue  # for example a cluster without KEDA
        except NotReady as error:
            unread.append(f"{policy_kind}: {error}")
    return None, "; ".join(unread)


def _as_written(policy: Manifest) -> Manifest:
    """Return a policy without what the server added to it."""
    metadata = {key: policy["metadata"][key] for key in _STORED if policy["metadata"].get(key)}
    notes = dict(metadata.get("annotations") or {})
    notes.pop(LAST_APPLIED, None)
    metadata = {**metadata, "annotations": notes} if notes else metadata
    kind = policy["kind"]
    head = {"apiVersion": POLICY_VERSIONS[kind], "kind": kind}
    return {**head, "metadata": metadata, "spec": policy["spec"]}
