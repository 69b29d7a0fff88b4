"""The ``Cluster`` of a real API server or of localkube, through the official dynamic client."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
from collections.abc import Callable, Generator, Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from lagbench.adapters.kube.client.kube_connection import log_in
from lagbench.adapters.kube.client.kube_errors import Failure, mapped
from lagbench.adapters.kube.client.kube_kinds import KubeKinds
from lagbench.adapters.kube.client.kube_retries import patient_retries
from lagbench.adapters.kube.client.object_events import WatchTimes, list_and_watch
from lagbench.adapters.kube.cluster_protocol import (
    ClusterError,
    Kind,
    Manifest,
    ObjectKey,
    Scale,
    Snapshot,
    key_of,
)
from lagbench.core.hpa import ScaleTarget

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


class KubeCluster:
    """The API server of a kubeconfig, or of the pod's own cluster."""

    def __init__(self, api_client: ApiClient, namespace: str | None = None) -> None:
        """Use ``api_client``; the server is asked at the first call.

        ``namespace``: follow objects there only.
        """
        self._api_client = api_client
        self._namespace = namespace
        self._kinds = KubeKinds(api_client)

    @classmethod
    def connect(cls, kubeconfig: str | None, namespace: str | None = None) -> KubeCluster:
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
        with _translated(f"read {kind[1]} {key[0]}/{key[1]}"):
            found = self._resource(kind).get(
                namespace=key[0] or None, name=key[1], _request_timeout=_REQUEST_TIMEOUT_SECONDS
            )
            return _with_kind(found.to_dict(), kind)

    def list(self, kind: Kind, namespace: str, label_selector: str) -> list[Manifest]:
        """Return the objects of a namespace that carry the labels."""
        with _translated(f"list {kind[1]} in {namespace}"):
            found = self._resource(kind).get(
                namespace=namespace,
                label_selector=label_selector or None,
                _request_timeout=_REQUEST_TIMEOUT_SECONDS,
            )
            return [dict(item) for item in found.to_dict().get("items") or []]

    def create(self, manifest: Manifest) -> Manifest:
        """Create an object and return it as stored."""
        kind = (manifest["apiVersion"], manifest["kind"])
        with _translated(f"create {kind[1]} {'/'.join(key_of(manifest))}"):
            stored = self._resource(kind).create(
                body=manifest,
                namespace=manifest["metadata"]["namespace"],
                _request_timeout=_REQUEST_TIMEOUT_SECONDS,
            )
            return dict(stored.to_dict())

    def replace(self, manifest: Manifest) -> Manifest:
        """Replace an object; a stale resourceVersion is a conflict."""
        kind = (manifest["apiVersion"], manifest["kind"])
        with _translated(f"replace {kind[1]} {'/'.join(key_of(manifest))}"):
            stored = self._resource(kind).replace(
                body=manifest,
                namespace=manifest["metadata"]["namespace"],
                _request_timeout=_REQUEST_TIMEOUT_SECONDS,
            )
            return dict(stored.to_dict())

    def delete(self, kind: Kind, key: ObjectKey) -> None:
        """Delete an object; a missing object is fine."""
        try:
            with _translated(f"delete {kind[1]} {key[0]}/{key[1]}"):
                self._resource(kind).delete(
                    namespace=key[0], name=key[1], _request_timeout=_REQUEST_TIMEOUT_SECONDS
                )
        except ClusterError as error:
            if not error.is_not_found:
                raise

    def patch(self, kind: Kind, key: ObjectKey, change: Manifest, *, subresource: str = "") -> None:
        """Merge ``change`` into an object or its subresource."""
        with _translated(f"patch {kind[1]} {key[0]}/{key[1]} {subresource}".rstrip()):
            resource = self._resource(kind)
            target = resource.subresources[subresource] if subresource else resource
            target.patch(
                body=change,
                namespace=key[0],
                name=key[1],
                content_type=MERGE_PATCH,
                _request_timeout=_REQUEST_TIMEOUT_SECONDS,
            )

    def get_scale(self, target: ScaleTarget, namespace: str) -> Scale:
        """Return the target's scale subresource."""
        with _translated(f"read the scale of {target.kind} {namespace}/{target.name}"):
            resource = self._resource((target.api_version, target.kind))
            if "scale" not in resource.subresources:
                raise ClusterError(f"{target.kind} has no scale subresource", status=404)
            scale = resource.subresources["scale"].get(
                namespace=namespace, name=target.name, _request_timeout=_REQUEST_TIMEOUT_SECONDS
            )
        document = scale.to_dict()
        status = document.get("status") or {}
        return Scale(
            spec_replicas=(document.get("spec") or {}).get("replicas", 0),
            status_replicas=status.get("replicas", 0),
            selector=status.get("selector", ""),
        )

    def set_replicas(self, target: ScaleTarget, namespace: str, replicas: int) -> None:
        """Set the replicas of the target through its scale subresource."""
        self.patch(
            (target.api_version, target.kind),
            (namespace, target.name),
            {"spec": {"replicas": replicas}},
            subresource="scale",
        )

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
