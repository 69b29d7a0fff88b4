"""Requests to a real API server as they are, with everything that comes back."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import quote

from kubernetes import config

from lagbench.core.policy.admission.api_server import FieldValidation

Manifest = Mapping[str, Any]

_CALL_LIMIT_SECONDS = 60
_UPDATES = 10
_WARNING = re.compile(r'299 - "((?:[^"\\]|\\.)*)"')
_PLACES = {
    "Deployment": ("apps/v1", "deployments"),
    "HorizontalPodAutoscaler": ("autoscaling/v2", "horizontalpodautoscalers"),
    "LimitRange": ("v1", "limitranges"),
    "ScaledObject": ("keda.sh/v1alpha1", "scaledobjects"),
    "StatefulSet": ("apps/v1", "statefulsets"),
}


@dataclass(frozen=True, slots=True)
class LiveAnswer:
    """The answer of the API server; ``message`` is None if it stored the object."""

    code: int
    message: str | None
    warnings: tuple[str, ...]
    body: Mapping[str, Any]

    @property
    def is_accepted(self) -> bool:
        """Return whether the object is stored."""
        return self.message is None


class LiveApi:
    """The API server of a kubeconfig; manifests go over the wire as they are."""

    def __init__(self, kubeconfig: Path) -> None:
        """Read credentials; nothing is asked yet."""
        self.kubeconfig = kubeconfig
        client = config.new_client_from_config(str(kubeconfig))
        self._pool = client.rest_client.pool_manager
        self._host = client.configuration.host

    def send(
        self,
        manifest: Manifest,
        namespace: str,
        *,
        field_validation: FieldValidation = "Strict",
        is_dry_run: bool = False,
    ) -> LiveAnswer:
        """Create the object, or replace the stored one of that name.

        KEDA's operator writes to the stored one, too: the update is made again on what it wrote.
        """
        path = self._path(manifest, namespace)
        query = f"?fieldValidation={field_validation}{'&dryRun=All' if is_dry_run else ''}"
        metadata = manifest.get("metadata")
        name = metadata.get("name") if isinstance(metadata, Mapping) else None
        for _ in range(_UPDATES):
            stored = self._ask("GET", f"{path}/{quote(str(name))}") if name else None
            if stored is None or not stored.is_accepted or is_dry_run:
                return self._ask("POST", path + query, manifest)
            version = stored.body["metadata"]["resourceVersion"]
            update = {**manifest, "metadata": {**metadata, "resourceVersion": version}}
            answer = self._ask("PUT", f"{path}/{name}{query}", update)
            if answer.code != HTTPStatus.CONFLICT:
                break
        return answer

    def get(self, kind: str, namespace: str, name: str) -> Manifest:
        """Return an object; empty when there is none."""
        version, plural = _PLACES[kind]
        found = self._ask("GET", f"{_root(version)}/namespaces/{namespace}/{plural}/{name}")
        return found.body if found.is_accepted else {}

    def delete_namespace(self, namespace: str) -> None:
        """Ask for the end of a namespace and all in it; does not wait."""
        self._ask("DELETE", f"/api/v1/namespaces/{namespace}")

    def create_namespace(self, namespace: str) -> LiveAnswer:
        """Create a namespace."""
        manifest = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
        return self._ask("POST", "/api/v1/namespaces", manifest)

    def _path(self, manifest: Manifest, namespace: str) -> str:
        version = str(manifest.get("apiVersion"))
        plural = _PLACES[str(manifest.get("kind"))][1]
        return f"{_root(version)}/namespaces/{namespace}/{plural}"

    def _ask(self, method: str, path: str, manifest: Manifest | None = None) -> LiveAnswer:
        answer = self._pool.request(
            method,
            self._host + path,
            body=None if manifest is None else json.dumps(manifest),
            headers={"Content-Type": "application/json", "Accept": "application/json"},
            timeout=_CALL_LIMIT_SECONDS,
            retries=False,
        )
        text = answer.data.decode()
        is_json = "json" in answer.headers.get("Content-Type", "")
        body = json.loads(text) if is_json else {"message": text}
        warnings = [json.loads(f'"{found}"') for found in _WARNING.findall(_warnings(answer))]
        is_stored = answer.status < 400
        message = None if is_stored else str(body["message"])
        return LiveAnswer(answer.status, message, tuple(warnings), body)


def _warnings(answer: Any) -> str:
    return ", ".join(answer.headers.getlist("Warning"))


def _root(version: str) -> str:
    return "/api/v1" if version == "v1" else f"/apis/{version}"
