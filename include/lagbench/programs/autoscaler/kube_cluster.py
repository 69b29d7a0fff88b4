"""The ``Cluster`` of a real API server or of localkube, through the official dynamic client."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from lagbench.core.hpa import ScaleTarget
from lagbench.errors import NotReady
from lagbench.programs.autoscaler.cluster import (
    ClusterError,
    Kind,
    Manifest,
    ObjectKey,
    Scale,
    Snapshot,
    key_of,
)

log = logging.getLogger(__name__)

MERGE_PATCH = "application/merge-patch+json"
_REQUEST_TIMEOUT_SECONDS = 10.0
_WATCH_SECONDS = 60
_POOL_SIZE = 32  # one connection per worker thread and watch, else urllib3 discards and reopens
_RETRY_SECONDS = 1.0


class KubeCluster:
    """The API server of a kubeconfig, or of the pod's own cluster."""

    def __init__(self, api_client: Any, namespace: str | None = None) -> None:
        """Use ``api_client``; discovery is asked for at the first call and kept in memory.

        ``namespace``: follow objects there only.
        """
        self._api_client = api_client
        self._namespace = namespace
        self._cache = tempfile.TemporaryDirectory(prefix="lagbench-autoscaler-")
        self._dynamic: Any = None
        self._discovery_lock = threading.Lock()

    @classmethod
    def connect(cls, kubeconfig: str | None, namespace: str | None = None) -> KubeCluster:
        """Read ``kubeconfig``, else KUBECONFIG, else the pod's service account."""
        from kubernetes import client, config

        configuration = client.Configuration()
        configuration.connection_pool_maxsize = _POOL_SIZE
        configuration.retries = 1
        path = kubeconfig or os.environ.get("KUBECONFIG")
        try:
            if path:
                config.load_kube_config(
                    config_file=path, client_configuration=configuration, persist_config=False
                )
            else:
                config.load_incluster_config(client_configuration=configuration)
        except (config.ConfigException, OSError) as error:
            raise NotReady(
                f"the kubeconfig {path or '(in-cluster)'} cannot be used: {error}. "
                "Give --kubeconfig or set KUBECONFIG"
            ) from error
        return cls(client.ApiClient(configuration), namespace)

    def follow(
        self, kind: Kind, seen: Callable[[Snapshot], None], is_over: Callable[[], bool]
    ) -> None:
        """List, then watch; after any break begin anew with a list."""
        pause = threading.Event()
        while not is_over():
            try:
                self._list_and_watch(kind, seen, is_over)
            except ClusterError as error:
                log.warning("following %s broke off: %s", kind[1], error)
                pause.wait(_RETRY_SECONDS)

    def _list_and_watch(
        self, kind: Kind, seen: Callable[[Snapshot], None], is_over: Callable[[], bool]
    ) -> None:
        from kubernetes import watch

        with _translated(f"follow {kind[1]}"):
            resource = self._resource(kind)
            found = resource.get(
                namespace=self._namespace, _request_timeout=_REQUEST_TIMEOUT_SECONDS
            ).to_dict()
            objects = {key_of(item): _with_kind(item, kind) for item in found.get("items") or []}
            seen(dict(objects))
            stream = watch.Watch().stream(
                resource.get,
                serialize=False,
                namespace=self._namespace,
                resource_version=found["metadata"]["resourceVersion"],
                timeout_seconds=_WATCH_SECONDS,
                _request_timeout=(_REQUEST_TIMEOUT_SECONDS, _WATCH_SECONDS + 15),
            )
            for event in stream:
                if is_over():
                    return
                item = event["object"]
                if event["type"] == "ERROR":
                    return
                if event["type"] == "DELETED":
                    objects.pop(key_of(item), None)
                elif event["type"] in {"ADDED", "MODIFIED"}:
                    objects[key_of(item)] = _with_kind(item, kind)
                seen(dict(objects))

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
        """Delete an object; one that is gone already is no error."""
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
        with self._discovery_lock:
            if self._dynamic is None:
                from kubernetes.dynamic import DynamicClient

                cache_file = str(Path(self._cache.name) / "discovery.json")
                self._dynamic = DynamicClient(self._api_client, cache_file=cache_file)
            return self._dynamic.resources.get(api_version=kind[0], kind=kind[1])


def _with_kind(item: Manifest, kind: Kind) -> Manifest:
    """Add apiVersion and kind, which lists leave out of their items."""
    return {**item, "apiVersion": kind[0], "kind": kind[1]}


@contextlib.contextmanager
def _translated(what: str) -> Iterator[None]:
    from kubernetes.client import ApiException
    from kubernetes.dynamic.exceptions import (
        ResourceNotFoundError,
        ResourceNotUniqueError,
    )
    from urllib3.exceptions import HTTPError

    try:
        yield
    except ApiException as error:
        status = int(error.status or 0)
        raise ClusterError(f"could not {what}: {_said(error)}", status=status) from error
    except (ResourceNotFoundError, ResourceNotUniqueError) as error:
        raise ClusterError(f"could not {what}: {error}", status=404) from error
    except (HTTPError, OSError, ValueError) as error:
        raise ClusterError(f"could not {what}: the API does not answer ({error})") from error


def _said(error: Any) -> str:
    body = error.body.decode(errors="replace") if isinstance(error.body, bytes) else error.body
    try:
        return str(json.loads(body or "")["message"])
    except (ValueError, KeyError, TypeError):
        return f"{error.status} {error.reason}"
