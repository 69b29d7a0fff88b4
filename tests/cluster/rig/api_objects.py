"""Objects that tell the API server of programs outside the cluster, and applying them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kubernetes import client, config, dynamic

from tests.cluster.rig.network import NODE_ADDRESS


class Applier:
    """Applies any object, server-side."""

    def __init__(self, kubeconfig: Path) -> None:
        """Act as the kubeconfig's user."""
        self._api = config.new_client_from_config(str(kubeconfig))

    def all(self, objects: list[dict[str, Any]]) -> None:
        """Apply the objects in their order."""
        dyn = dynamic.DynamicClient(self._api)
        for item in objects:
            resource = dyn.resources.get(api_version=item["apiVersion"], kind=item["kind"])
            resource.server_side_apply(
                body=item,
                name=item["metadata"]["name"],
                namespace=item["metadata"].get("namespace"),
                field_manager="lagbench-rig",
                force_conflicts=True,
            )


def service(name: str, namespace: str, port: int) -> list[dict[str, Any]]:
    """Return a service on 443 and the slice that leads it to a port of the node."""
    metadata = {"name": name, "namespace": namespace}
    return [
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": metadata,
            "spec": {"ports": [{"name": "https", "port": 443, "targetPort": port}]},
        },
        {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {
                **metadata,
                "name": f"{name}-1",
                "labels": {"kubernetes.io/service-name": name},
            },
            "addressType": "IPv4",
            "ports": [{"name": "https", "port": port, "protocol": "TCP"}],
            "endpoints": [{"addresses": [NODE_ADDRESS], "conditions": {"ready": True}}],
        },
    ]


def api_service(group: str, version: str, name: str, namespace: str, bundle: str) -> dict[str, Any]:
    """Return the registration of an aggregated API behind a service; ``bundle`` is base64."""
    return {
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": {"name": f"{version}.{group}"},
        "spec": {
            "service": {"name": name, "namespace": namespace, "port": 443},
            "caBundle": bundle,
            "group": group,
            "version": version,
            "groupPriorityMinimum": 100,
            "versionPriority": 100,
        },
    }


def is_served(kubeconfig: Path, name: str) -> bool:
    """Return whether an aggregated API is available."""
    api = client.ApiregistrationV1Api(config.new_client_from_config(str(kubeconfig)))
    status = api.read_api_service(name).status
    return any(c.type == "Available" and c.status == "True" for c in status.conditions or [])
