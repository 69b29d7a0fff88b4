"""A cluster as an autoscaler sees it: objects that it follows, reads and writes.

The official dynamic client speaks to a real API server or to localkube. Every call is bounded in
time and raises ``ClusterError``.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
from collections.abc import Callable, Generator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lagbench.adapters.kube.kube_client import (
    Failure,
    KubeKinds,
    WatchTimes,
    list_and_watch,
    log_in,
    mapped,
    patient_retries,
)
from lagbench.core.hpa.hpa_object import ScaleTarget
from lagbench.errors import NotReady

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

log = logging.getLogger(__name__)
MERGE_PATCH = "application/merge-patch+json"
_REQUEST_TIMEOUT_SECONDS = 10.0
_WATCH_TIMES = WatchTimes(
    list_seconds=_REQUEST_TIMEOUT_SECONDS, watch_seconds=60, overdue_seconds=15.0
)

_POOL_SIZE = 32  # one connection per worker thread and watch, else urllib3 discards and reopens
_RETRY_SECONDS = 1.0
Manifest = dict[str, Any]
ObjectKey = tuple[str, str]  # namespace (empty for cluster-wide kinds), name
Snapshot = Mapping[ObjectKey, Manifest]
SCALED_OBJECT = ("keda.sh/v1alpha1", "ScaledObject")
HPA = ("autoscaling/v2", "HorizontalPodAutoscaler")
POD = ("v1", "Pod")
POD_METRICS = ("metrics.k8s.io/v1beta1", "PodMetrics")
EVENT = ("v1", "Event")
SERVICE = ("v1", "Service")
SECRET = ("v1", "Secret")
CONFIG_MAP = ("v1", "ConfigMap")
TRIGGER_AUTHENTICATION = ("keda.sh/v1alpha1", "TriggerAuthentication")
CLUSTER_TRIGGER_AUTHENTICATION = ("keda.sh/v1alpha1", "ClusterTriggerAuthentication")
Kind = tuple[str, str]


class ClusterError(NotReady):
    """The API server rejected or did not answer; ``status`` 0: no answer."""

    def __init__(self, message: str, *, status: int = 0) -> None:
        """Keep the HTTP status for callers that distinguish 404 from the others."""
        super().__init__(message)
        self.status = status

    @property
    def is_not_found(self) -> bool:
        """Return whether the object or its kind is not there."""
        return self.status == 404


@dataclass(frozen=True, slots=True)
class Scale:
    """The scale subresource of a workload."""

    spec_replicas: int
    status_replicas: int
    selector: str


def key_of(manifest: Mapping[str, Any]) -> ObjectKey:
    """Return namespace and name of an object."""
    metadata = manifest["metadata"]
    return metadata.get("namespace", ""), metadata["name"]


class Cluster:
    """The API server of a kubeconfig, or of the pod's own cluster."""

    def __init__(self, api_client: ApiClient, namespace: str | None = None) -> None:
        """Use ``api_client``; the server is asked at the first call.

        ``namespace``: follow objects there only.
        """
        self._api_client = api_client
        self._namespace = namespace
        self._kinds = KubeKinds(api_client)

    @classmethod
    def connect(cls, kubeconfig: str | None, namespace: str | None = None) -> Cluster:
        """Read ``kubeconfig``, else KUBECONFIG, else the pod's service account."""
        path = kubeconfig or os.environ.get("KUBECONFIG")
        api_client = log_in(
            path,
            is_in_cluster=not path,
            retries=patient_retries(0),
            pool_size=_POOL_SIZE,
            advice="Give --kubeconfig or set KUBECONFIG",
        )
        return cls(api_client, namespace)

    def follow(
        self, kind: Kind, seen: Callable[[Snapshot], None], is_over: Callable[[], bool]
    ) -> None:
        """List, then watch; after any break, or an error in ``seen``, begin again with a list."""
        pause = threading.Event()
        while not is_over():
            try:
                with contextlib.closing(self._snapshots(kind, is_over)) as snapshots:
                    for snapshot in snapshots:
                        seen(snapshot)
            except ClusterError as error:
                log.warning("the watch of %s ended: %s", kind[1], error)
                pause.wait(_RETRY_SECONDS)
            except Exception:
                log.exception("the watch of %s: a snapshot failed, continuing", kind[1])
                pause.wait(_RETRY_SECONDS)

    def _snapshots(
        self, kind: Kind, is_over: Callable[[], bool]
    ) -> Generator[Snapshot, None, None]:
        """Yield the objects after the list and after each change, until the watch ends."""
        objects: dict[ObjectKey, Manifest] = {}
        with _translated(f"follow {kind[1]}"):
            path = self._resource(kind).path(namespace=self._namespace)
            for change, found in list_and_watch(self._api_client, path, _WATCH_TIMES):
                if is_over() and change != "LISTED":
                    return
                if change == "LISTED":
                    items = found.get("items") or []
                    objects = {key_of(item): _with_kind(item, kind) for item in items}
                elif change == "DELETED":
                    objects.pop(key_of(found), None)
                elif change in {"ADDED", "MODIFIED"}:
                    objects[key_of(found)] = _with_kind(found, kind)
                elif change == "ERROR":
                    raise _ended(kind, found)
                yield dict(objects)

    def get(self, kind: Kind, key: ObjectKey) -> Manifest:
        """Return an object."""
        what = f"read {kind[1]} {key[0]}/{key[1]}"
        found = self._call(what, kind, "get", namespace=key[0] or None, name=key[1])
        return _with_kind(found, kind)

    def list(self, kind: Kind, namespace: str, label_selector: str) -> list[Manifest]:
        """Return the objects of a namespace that carry the labels."""
        what, labels = f"list {kind[1]} in {namespace}", label_selector or None
        found = self._call(what, kind, "get", namespace=namespace, label_selector=labels)
        return [dict(item) for item in found.get("items") or []]

    def create(self, manifest: Manifest) -> Manifest:
        """Create an object and return it as stored."""
        return self._write("create", manifest)

    def replace(self, manifest: Manifest) -> Manifest:
        """Replace an object; a stale resourceVersion is a conflict."""
        return self._write("replace", manifest)

    def delete(self, kind: Kind, key: ObjectKey) -> None:
        """Delete an object; a missing object is fine."""
        what = f"delete {kind[1]} {key[0]}/{key[1]}"
        try:
            self._call(what, kind, "delete", namespace=key[0], name=key[1])
        except ClusterError as error:
            if not error.is_not_found:
                raise

    def patch(self, kind: Kind, key: ObjectKey, change: Manifest, *, subresource: str = "") -> None:
        """Merge ``change`` into an object or its subresource."""
        self._call(
            f"patch {kind[1]} {key[0]}/{key[1]} {subresource}".rstrip(),
            kind,
            "patch",
            subresource,
            body=change,
            namespace=key[0],
            name=key[1],
            content_type=MERGE_PATCH,
        )

    def get_scale(self, target: ScaleTarget, namespace: str) -> Scale:
        """Return the target's scale subresource."""
        what = f"read the scale of {target.kind} {namespace}/{target.name}"
        kind = (target.api_version, target.kind)
        found = self._call(what, kind, "get", "scale", namespace=namespace, name=target.name)
        status = found.get("status") or {}
        return Scale(
            spec_replicas=(found.get("spec") or {}).get("replicas", 0),
            status_replicas=status.get("replicas", 0),
            selector=status.get("selector", ""),
        )

    def set_replicas(self, target: ScaleTarget, namespace: str, replicas: int) -> None:
        """Set the replicas of the target through its scale subresource."""
        kind, key = (target.api_version, target.kind), (namespace, target.name)
        self.patch(kind, key, {"spec": {"replicas": replicas}}, subresource="scale")

    def _write(self, verb: str, manifest: Manifest) -> Manifest:
        kind, key = (manifest["apiVersion"], manifest["kind"]), key_of(manifest)
        what = f"{verb} {kind[1]} {'/'.join(key)}"
        return self._call(what, kind, verb, body=manifest, namespace=key[0])

    def _call(
        self, what: str, kind: Kind, verb: str, subresource: str = "", **arguments: Any
    ) -> Manifest:
        """Return the answer to one call of the dynamic client."""
        with _translated(what):
            served = self._resource(kind)
            if subresource:
                if subresource not in served.subresources:
                    raise ClusterError(f"{kind[1]} has no {subresource} subresource", status=404)
                served = served.subresources[subresource]
            call = getattr(served, verb)
            return dict(call(_request_timeout=_REQUEST_TIMEOUT_SECONDS, **arguments).to_dict())

    def _resource(self, kind: Kind) -> Any:
        return self._kinds.resource(*kind)


def _with_kind(item: Mapping[str, Any], kind: Kind) -> Manifest:
    """Add apiVersion and kind, which lists leave out of their items."""
    return {**item, "apiVersion": kind[0], "kind": kind[1]}


def _ended(kind: Kind, status: Mapping[str, Any]) -> ClusterError:
    """Return why the server ended a watch: 410, its version is too old; the next list has all."""
    code = int(status.get("code") or 0)
    text = f"{code} {status.get('reason')}: {status.get('message')}"
    return ClusterError(f"could not follow {kind[1]}: {text}", status=code)


def _translated(what: str) -> AbstractContextManager[None]:
    def to_error(failure: Failure) -> ClusterError:
        is_silent = failure.cause == "no answer"
        text = f"the API does not answer ({failure.text})" if is_silent else failure.text
        return ClusterError(f"could not {what}: {text}", status=failure.status)

    return mapped(to_error)
