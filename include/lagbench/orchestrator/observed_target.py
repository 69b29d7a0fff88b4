"""Find what is to be observed: a Kafka, and the workload and policy of the group, read only."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lagbench.adapters.kafka.client_settings import SERVERS, checked, read_settings
from lagbench.adapters.kafka.kafka_admin import KafkaAdmin, ask_again
from lagbench.adapters.kafka.kafka_groups import GroupSnapshot
from lagbench.adapters.kafka.kafka_lag import open_admin, read_group_lag
from lagbench.adapters.kube.client.api_discovery import ApiDiscovery
from lagbench.adapters.kube.client.kube_connection import log_in
from lagbench.adapters.kube.cluster_facts import read_cluster_facts
from lagbench.adapters.kube.kube import Kube, Manifest
from lagbench.core.cluster import EMBEDDED
from lagbench.core.kubernetes import selector_string
from lagbench.core.measures import Fidelity
from lagbench.core.policy import POLICY_VERSIONS
from lagbench.core.policy.review import ClusterFacts
from lagbench.core.scenario import NAMESPACE, Workload
from lagbench.embedded import bench
from lagbench.embedded.kafka_choice import named_settings
from lagbench.errors import LagbenchError, NotReady, UnknownKind, WrongInput
from lagbench.orchestrator.target import (
    CONTEXT_ADVICE,
    CONTEXT_PREFIX,
    KIND,
    namespace_of_context,
)
from lagbench.project import state_dir

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

_ANSWER_SECONDS = 20.0
_BUSY_SECONDS = 120.0
"""A hundred members that join 2,000 partitions keep a broker busy for longer than one answer."""
_WORKLOADS: tuple[Workload, ...] = ("Deployment", "StatefulSet")
_STORED = ("name", "namespace", "labels", "annotations")
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


@dataclass(frozen=True, slots=True)
class ObservedPlace:
    """A namespace of a cluster, and how to log in there."""

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
            discovery = ApiDiscovery(kube.api_client)
            is_whole = self.fidelity == "kubernetes"
            return read_cluster_facts(
                kube, discovery, [policy], source=self.name, knows_kinds=is_whole
            )
        return None


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
    """Return the namespace of a target: its context's, unless another one is given.

    :raises WrongInput: there is no such target or context.
    :raises NotReady: the bench or the kind cluster is not there.
    """
    if target == EMBEDDED:
        state = bench.running(state_dir())
        if state is None:
            raise NotReady("the embedded bench is not up: lagbench up")
        config = str(state.kubeconfig)
        return ObservedPlace(target, config, None, namespace or NAMESPACE, "processes")
    if target == KIND:
        kubeconfig = state_dir() / "kind.kubeconfig"
        if not kubeconfig.is_file():
            raise NotReady(f"there is no kind cluster of the bench ({kubeconfig}): make kind")
        return ObservedPlace(target, str(kubeconfig), None, namespace or NAMESPACE, "kubernetes")
    context = target.removeprefix(CONTEXT_PREFIX).strip()
    if not context or not target.startswith(CONTEXT_PREFIX):
        allowed = f"{EMBEDDED}, {KIND} or {CONTEXT_PREFIX}NAME"
        raise WrongInput(where="command line", field="--target", value=target, allowed=allowed)
    kubeconfig_name = os.environ.get("KUBECONFIG")
    of_context = namespace_of_context(context, kubeconfig_name)
    return ObservedPlace(target, kubeconfig_name, context, namespace or of_context, "kubernetes")


def kafka_settings(
    config_file: Path | None, bootstrap_servers: str | None, place: ObservedPlace | None
) -> dict[str, str]:
    """Return librdkafka's settings: those of the file, else of the environment, else the bench's.

    :raises WrongInput: none of them names servers, or librdkafka rejects a setting.
    """
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
        raise WrongInput(
            where=where,
            field=SERVERS,
            value="",
            allowed="host:port: by --kafka-config FILE, --bootstrap-servers, "
            "AIRFLOW_CONN_KAFKA_DEFAULT or KAFKA_BOOTSTRAP_SERVERS",
        )
    return found


def require_group(settings: Mapping[str, Any], group: str, topic: str) -> GroupSnapshot:
    """Return the group as the broker describes it now.

    :raises WrongInput: there is no such topic or group.
    :raises NotReady: Kafka does not answer, or the account may not describe them.
    """
    with KafkaAdmin(settings, timeout_seconds=_ANSWER_SECONDS) as admin:
        admin.check_reachable()
        if topic not in admin.partition_counts([topic]):
            raise WrongInput(
                where="command line",
                field="--topic",
                value=topic,
                allowed="a topic that exists and that this account may describe",
            )

        def describe() -> GroupSnapshot:
            asked = admin.ask_for_group(group, limit_seconds=_ANSWER_SECONDS)
            return admin.group_answer(group, asked, wait_seconds=_ANSWER_SECONDS)

        found = ask_again(describe, for_seconds=_BUSY_SECONDS)
    if found.state == "DEAD":
        raise WrongInput(
            where="command line", field="--group", value=group, allowed="a group that exists"
        )
    with contextlib.closing(open_admin(str(settings[SERVERS]), settings)) as client:
        ask_again(
            lambda: read_group_lag(client, group, topic, timeout_seconds=_ANSWER_SECONDS),
            for_seconds=_BUSY_SECONDS,
        )
    return found


def find_workload(
    kube: Kube, deployment: str | None, scaled_object: str | None
) -> ObservedWorkload:
    """Return the workload of the group; policy and target name each other.

    :raises WrongInput: there is no such object in the namespace, or the two do not fit.
    """
    policy, unknown = None, ""
    if scaled_object is not None:
        policy = kube.get("ScaledObject", scaled_object)
        if policy is None:
            raise _absent(kube, "--scaled-object", scaled_object)
        target = policy["spec"]["scaleTargetRef"]["name"]
        if deployment is not None and deployment != target:
            raise WrongInput(
                where="command line",
                field="--deployment",
                value=deployment,
                allowed=f"{target}, the scale target of ScaledObject {scaled_object}",
            )
        deployment = target
    name = str(deployment)
    for kind in _WORKLOADS:
        with contextlib.suppress(UnknownKind):  # localkube and old servers lack a kind
            found = kube.get(kind, name)
            if found is not None:
                if policy is None:
                    policy, unknown = _policy_of(kube, kind, name)
                selector, written = (
                    selector_string(found["spec"]["selector"]),
                    policy and _as_written(policy),
                )
                return ObservedWorkload(kind, name, selector, written, unknown)
    raise _absent(kube, "--deployment", name)


def _absent(kube: Kube, field: str, value: str) -> WrongInput:
    return WrongInput(
        where="command line",
        field=field,
        value=value,
        allowed=f"an object in the namespace {kube.namespace} (--namespace names another)",
    )


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
    notes.pop(_LAST_APPLIED, None)
    metadata = {**metadata, "annotations": notes} if notes else metadata
    return {
        "apiVersion": POLICY_VERSIONS[policy["kind"]],
        "kind": policy["kind"],
        "metadata": metadata,
        "spec": policy["spec"],
    }
