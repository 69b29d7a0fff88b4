"""Kubernetes through the official dynamic client: plain dicts in and out, own errors.

The same client speaks to localkube and to a cluster; only the kubeconfig differs.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from lagbench.adapters.kube.kube_client import (
    KubeKinds,
    describe,
    log_in,
    patient_retries,
    translated,
    warnings_of,
)
from lagbench.core.scenario.run_names import NAMESPACE
from lagbench.errors import NotReady, StillWaiting

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

Manifest = dict[str, Any]
Found = TypeVar("Found")
FIELD_MANAGER = "lagbench"
API_VERSIONS: Mapping[str, str] = {
    "Namespace": "v1",
    "Pod": "v1",
    "Service": "v1",
    "ServiceAccount": "v1",
    "ConfigMap": "v1",
    "PersistentVolumeClaim": "v1",
    "Secret": "v1",
    "Event": "v1",
    "LimitRange": "v1",
    "Deployment": "apps/v1",
    "StatefulSet": "apps/v1",
    "Job": "batch/v1",
    "HorizontalPodAutoscaler": "autoscaling/v2",
    "PodDisruptionBudget": "policy/v1",
    "Role": "rbac.authorization.k8s.io/v1",
    "RoleBinding": "rbac.authorization.k8s.io/v1",
    "ScaledObject": "keda.sh/v1alpha1",
    "TriggerAuthentication": "keda.sh/v1alpha1",
    "ClusterTriggerAuthentication": "keda.sh/v1alpha1",
}
_NOT_FOUND, _CONFLICT = 404, 409
_POLL_SECONDS = 0.25
MERGE_PATCH = "application/merge-patch+json"


class Kube:
    """One namespace of a Kubernetes API server."""

    def __init__(
        self,
        api_client: ApiClient,
        *,
        namespace: str = NAMESPACE,
        request_timeout_seconds: float = 10.0,
    ) -> None:
        """Use ``api_client``; nothing is asked of the server yet."""
        self.namespace = namespace
        self.api_client = api_client
        self._limit: dict[str, Any] = {"_request_timeout": request_timeout_seconds}
        self._kinds = KubeKinds(api_client)

    @classmethod
    def from_kubeconfig(
        cls,
        path: Path | str | None = None,
        *,
        context: str | None = None,
        namespace: str = NAMESPACE,
        patience_seconds: float = 0.0,
    ) -> Kube:
        """Read a kubeconfig (None: where kubectl looks).

        Each call waits up to ``patience_seconds`` for an unreachable API server.
        """
        api_client = log_in(
            path,
            context=context,
            retries=patient_retries(patience_seconds),
            advice="Bring the bench up (lagbench up) or correct the connection kubernetes_default",
        )
        return cls(api_client, namespace=namespace)

    def elsewhere(self, namespace: str) -> Kube:
        """Return a client of another namespace of the same server, over the same connections."""
        other = Kube(self.api_client, namespace=namespace)
        other._limit, other._kinds = self._limit, self._kinds
        return other

    def close(self) -> None:
        """Close the connections."""
        self.api_client.close()  # ends its threads only
        self.api_client.rest_client.pool_manager.clear()

    def server_version(self) -> str:
        """Return the API server's version, e.g. ``v1.34.4``."""
        from kubernetes.client import VersionApi

        with self._translated("read the server's version"):
            answer = VersionApi(self.api_client).get_code(_preload_content=False, **self._limit)
            return str(json.loads(answer.data)["gitVersion"])

    def apply(self, manifest: Manifest) -> Manifest:
        """Make the object be as ``manifest`` says, by server-side apply; returns it as stored.

        Fields that an earlier apply set and this one leaves out are removed.
        """
        return _plain(self._apply("apply", manifest))

    def try_apply(self, manifest: Manifest) -> tuple[str, ...]:
        """Return the API server's warnings on an apply of ``manifest``; nothing is stored."""
        answer = self._apply("try to apply", manifest, dry_run="All", serialize=False)
        return warnings_of(answer.headers.getlist("Warning"))

    def _apply(self, verb: str, manifest: Manifest, **more: Any) -> Any:
        with self._translated(f"{verb} {describe(manifest)}", manifest):
            return self._resource(manifest["kind"], manifest.get("apiVersion")).server_side_apply(
                body=manifest,
                name=manifest["metadata"]["name"],
                namespace=self._namespace_of(manifest),
                field_manager=FIELD_MANAGER,
                force_conflicts=True,
                **more,
                **self._limit,
            )

    def create(self, manifest: Manifest) -> bool:
        """Create the object; False when one of that name is there already (it is left as it is)."""
        with self._translated(f"create {describe(manifest)}", manifest), _unless(_CONFLICT):
            self._resource(manifest["kind"], manifest.get("apiVersion")).create(
                body=manifest,
                namespace=self._namespace_of(manifest),
                field_manager=FIELD_MANAGER,
                **self._limit,
            )
            return True
        return False

    def create_missing(self, manifest: Manifest) -> bool:
        """Create the object unless there is one, which is left as it is: then False.

        A quota that is used up rejects a ``create`` before the API server finds the name taken.
        """
        found = self.get(manifest["kind"], manifest["metadata"]["name"])
        return found is None and self.create(manifest)

    def get(self, kind: str, name: str) -> Manifest | None:
        """Return the object, or None when there is none."""
        with self._translated(f"read {kind}/{name}"), _unless(_NOT_FOUND):
            found = self._resource(kind).get(name=name, namespace=self.namespace, **self._limit)
            return _plain(found)
        return None

    def list(self, kind: str, *, label_selector: str = "") -> list[Manifest]:
        """Return the objects of a kind in the namespace, in the server's order."""
        with self._translated(f"list {kind} ({label_selector or 'all'})"):
            found = self._resource(kind).get(
                namespace=self.namespace, label_selector=label_selector or None, **self._limit
            )
            return [dict(item) for item in _plain(found).get("items") or []]

    def delete(self, kind: str, name: str) -> bool:
        """Request the deletion of the object and all that it owns; False if it does not exist."""
        with self._translated(f"delete {kind}/{name}"), _unless(_NOT_FOUND):
            self._resource(kind).delete(
                name=name, namespace=self.namespace, propagation_policy="Background", **self._limit
            )
            return True
        return False

    def scale(self, name: str, replicas: int) -> None:
        """Set the replicas of a Deployment through its scale subresource."""
        with self._translated(f"scale Deployment/{name} to {replicas}"):
            self._resource("Deployment").subresources["scale"].patch(
                body={"spec": {"replicas": replicas}},
                name=name,
                namespace=self.namespace,
                content_type=MERGE_PATCH,
                **self._limit,
            )

    def merge(self, kind: str, name: str, changes: Manifest) -> Manifest:
        """Merge ``changes`` into the object (a null removes a field); returns it as stored."""
        with self._translated(f"change {kind}/{name}"):
            stored = self._resource(kind).patch(
                body=changes,
                name=name,
                namespace=self.namespace,
                content_type=MERGE_PATCH,
                field_manager=FIELD_MANAGER,
                **self._limit,
            )
            return _plain(stored)

    def signal_pod(self, pod: str, name: str, *, seconds: float | None = None) -> None:
        """Send the signal ``name`` to the pod's processes, SIGSTOP for ``seconds`` at most."""
        with self._translated(f"send {name} to Pod/{pod}"):
            served = self._resource("Pod").subresources
            if "signal" not in served:
                raise NotReady(
                    f"cannot send {name} to Pod/{pod}: only the embedded bench's API sends signals "
                    "to the processes of a pod"
                )
            body = {"signal": name} | ({} if seconds is None else {"seconds": seconds})
            served["signal"].create(body=body, name=pod, namespace=self.namespace, **self._limit)

    def pod_logs(self, pod: str, container: str | None = None) -> str:
        """Return what a container of the pod has written so far; None: the pod has only one."""
        from kubernetes.client import CoreV1Api

        with self._translated(f"read the log of Pod/{pod}"):
            text = CoreV1Api(self.api_client).read_namespaced_pod_log(
                pod, self.namespace, container=container, _preload_content=False, **self._limit
            )
            return str(text.data.decode("utf-8", errors="replace"))

    def wait_until(
        self,
        condition: Callable[[Kube], Found | None],
        *,
        timeout_seconds: float,
        what: str,
        last_seen: Callable[[], str] = str,
    ) -> Found:
        """Return the first value of ``condition`` that is neither None nor False."""
        deadline = time.monotonic() + timeout_seconds
        while True:
            found = condition(self)
            if found is not None and found is not False:
                return found
            if time.monotonic() >= deadline:
                seen = last_seen()
                raise StillWaiting(
                    f"waited {timeout_seconds:.0f} s for {what}"
                    + (f"; last seen: {seen}" if seen else "")
                    + f". Look at the pods of namespace {self.namespace} (kubectl get pods, logs)"
                )
            time.sleep(_POLL_SECONDS)

    def wait_gone(self, kind: str, *, label_selector: str, timeout_seconds: float) -> None:
        """Wait until no object of ``kind`` carries the labels."""
        names: list[str] = []

        def none_left(kube: Kube) -> bool:
            found = kube.list(kind, label_selector=label_selector)
            names[:] = [item["metadata"]["name"] for item in found]
            return not names

        self.wait_until(
            none_left,
            timeout_seconds=timeout_seconds,
            what=f"every {kind} with {label_selector} to be deleted",
            last_seen=lambda: ", ".join(names),
        )

    def _namespace_of(self, manifest: Manifest) -> str | None:
        return None if manifest["kind"] == "Namespace" else self.namespace

    def _resource(self, kind: str, api_version: str | None = None) -> Any:
        return self._kinds.resource(api_version or API_VERSIONS[kind], kind)

    def _translated(
        self, what: str, manifest: Manifest | None = None
    ) -> contextlib.AbstractContextManager[None]:
        host = self.api_client.configuration.host
        return translated(what, host, refusable=None if manifest is None else describe(manifest))


@contextlib.contextmanager
def _unless(status: int) -> Iterator[None]:
    """End the block without an error where the API server answers with ``status``."""
    from kubernetes.client import ApiException

    try:
        yield
    except ApiException as error:
        if error.status != status:
            raise


def _plain(instance: Any) -> Manifest:
    return dict(instance.to_dict())
