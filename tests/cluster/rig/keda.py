"""KEDA's operator, metrics adapter and admission webhooks, as plain processes beside the cluster.

Its services have no pods behind them: their EndpointSlices name the node's address.
"""

from __future__ import annotations

import base64
import os
from pathlib import Path
from typing import Any

import yaml
from kubernetes import client, config, dynamic

from tests.cluster.rig.binaries import Binaries
from tests.cluster.rig.certificates import Authority
from tests.cluster.rig.control_plane import Credentials, listens
from tests.cluster.rig.daemons import Daemons
from tests.cluster.rig.network import NODE_ADDRESS

NAMESPACE = "keda"
_ADAPTER_PORT, _WEBHOOK_PORT, _OPERATOR_PORT = 6444, 9443, 9666
_ADAPTER, _WEBHOOKS = "keda-metrics-apiserver", "keda-admission-webhooks"


def install_keda(
    daemons: Daemons, binaries: Binaries, credentials: Credentials, *, log_level: str = "info"
) -> None:
    """Apply KEDA's definitions, start its three programs, and wait until metrics are served."""
    authority = Authority.create("keda-ca", credentials.folder)
    hosts = ["localhost", "127.0.0.1", NODE_ADDRESS]
    for service in (_ADAPTER, _WEBHOOKS, "keda-operator"):
        hosts += [service, f"{service}.{NAMESPACE}.svc"]
    # One pair is the adapter's, the webhooks' and the operator's: server and client at once.
    folder = credentials.folder / "keda"
    folder.mkdir(exist_ok=True)
    pair = authority.issue("keda", common_name="keda", hosts=hosts)
    (folder / "ca.crt").write_bytes(authority.certificate.read_bytes())
    (folder / "tls.crt").write_bytes(pair.certificate.read_bytes())
    (folder / "tls.key").write_bytes(pair.key.read_bytes())
    bundle = base64.b64encode(authority.certificate.read_bytes()).decode()
    apply = _Applier(credentials.admin)
    apply.all(_definitions(binaries.crds))
    daemons.wait(
        "KEDA's definitions",
        lambda: _are_established(credentials.admin),
        daemon="kube-apiserver",
    )
    apply.all(_objects(bundle))
    start_operator(daemons, binaries, credentials, log_level=log_level)
    start_adapter(daemons, binaries, credentials)
    start_webhooks(daemons, binaries, credentials)
    apply.all(_webhook_configuration(binaries.webhook_manifests, bundle))
    daemons.wait(
        "the external metrics API", lambda: _is_available(credentials.admin), daemon="keda-adapter"
    )


def start_operator(
    daemons: Daemons, binaries: Binaries, credentials: Credentials, *, log_level: str = "info"
) -> None:
    """Start the operator and wait until it serves the adapter."""
    daemons.start(
        "keda-operator",
        [
            binaries.path("keda-operator"),
            f"--zap-log-level={log_level}",
            "--zap-encoder=json",
            "--zap-time-encoding=rfc3339nano",
            "--enable-cert-rotation=false",
            f"--cert-dir={credentials.folder / 'keda'}",
            "--metrics-bind-address=127.0.0.1:8080",
            "--health-probe-bind-address=127.0.0.1:8081",
            f"--metrics-service-bind-address=127.0.0.1:{_OPERATOR_PORT}",
        ],
        env=_environment(credentials, "keda-operator"),
    )
    daemons.wait(
        "KEDA's operator", lambda: listens("127.0.0.1", _OPERATOR_PORT), daemon="keda-operator"
    )


def start_adapter(daemons: Daemons, binaries: Binaries, credentials: Credentials) -> None:
    """Start the metrics adapter."""
    folder, kubeconfig = credentials.folder / "keda", str(credentials.admin)
    daemons.start(
        "keda-adapter",
        [
            binaries.path("keda-adapter"),
            f"--secure-port={_ADAPTER_PORT}",
            "--zap-log-level=info",
            "--zap-encoder=json",
            f"--client-ca-file={credentials.authority.certificate}",
            f"--tls-cert-file={folder / 'tls.crt'}",
            f"--tls-private-key-file={folder / 'tls.key'}",
            f"--cert-dir={folder}",
            f"--metrics-service-address=127.0.0.1:{_OPERATOR_PORT}",
            "--port=8082",
            f"--lister-kubeconfig={kubeconfig}",
            f"--authentication-kubeconfig={kubeconfig}",
            f"--authorization-kubeconfig={kubeconfig}",
        ],
        env=_environment(credentials, "keda-adapter"),
    )


def start_webhooks(daemons: Daemons, binaries: Binaries, credentials: Credentials) -> None:
    """Start the admission webhooks and wait until they listen."""
    daemons.start(
        "keda-webhooks",
        [
            binaries.path("keda-webhooks"),
            "--zap-log-level=info",
            "--zap-encoder=json",
            f"--cert-dir={credentials.folder / 'keda'}",
            "--metrics-bind-address=127.0.0.1:8083",
            "--health-probe-bind-address=127.0.0.1:8084",
            f"--port={_WEBHOOK_PORT}",
        ],
        env=_environment(credentials, "keda-webhooks"),
    )
    daemons.wait(
        "KEDA's webhooks", lambda: listens("127.0.0.1", _WEBHOOK_PORT), daemon="keda-webhooks"
    )


def _environment(credentials: Credentials, name: str) -> dict[str, str]:
    return {
        **os.environ,
        "KUBECONFIG": str(credentials.admin),
        "POD_NAME": f"{name}-0",
        "POD_NAMESPACE": NAMESPACE,
        "KEDA_CLUSTER_OBJECT_NAMESPACE": NAMESPACE,
        "WATCH_NAMESPACE": "",
    }


class _Applier:
    """Server-side apply of any object."""

    def __init__(self, kubeconfig: Path) -> None:
        self._api = config.new_client_from_config(str(kubeconfig))

    def all(self, objects: list[dict[str, Any]]) -> None:
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


def _definitions(folder: Path) -> list[dict[str, Any]]:
    return [
        item
        for path in sorted(folder.glob("*.yaml"))
        for item in yaml.safe_load_all(path.read_text(encoding="utf-8"))
        if isinstance(item, dict) and item.get("kind") == "CustomResourceDefinition"
    ]


def _webhook_configuration(folder: Path, bundle: str) -> list[dict[str, Any]]:
    """Return KEDA's own registration of its webhooks, with this rig's authority."""
    found = []
    for path in sorted(folder.glob("*.yaml")):
        for item in yaml.safe_load_all(path.read_text(encoding="utf-8")):
            if isinstance(item, dict) and item.get("kind") == "ValidatingWebhookConfiguration":
                for webhook in item["webhooks"]:
                    webhook["clientConfig"]["caBundle"] = bundle
                    webhook["clientConfig"]["service"].update(
                        name=_WEBHOOKS, namespace=NAMESPACE, port=443
                    )
                found.append(item)
    return found


def _objects(bundle: str) -> list[dict[str, Any]]:
    """Return the namespace, the services, the API registration and the HPA's right to read it."""
    api_group, rbac = "external.metrics.k8s.io", "rbac.authorization.k8s.io"
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}},
        *_service(_ADAPTER, _ADAPTER_PORT),
        *_service(_WEBHOOKS, _WEBHOOK_PORT),
        {
            "apiVersion": "apiregistration.k8s.io/v1",
            "kind": "APIService",
            "metadata": {"name": f"v1beta1.{api_group}"},
            "spec": {
                "service": {"name": _ADAPTER, "namespace": NAMESPACE, "port": 443},
                "caBundle": bundle,
                "group": api_group,
                "version": "v1beta1",
                "groupPriorityMinimum": 100,
                "versionPriority": 100,
            },
        },
        {
            "apiVersion": f"{rbac}/v1",
            "kind": "ClusterRole",
            "metadata": {"name": "keda-external-metrics-reader"},
            "rules": [{"apiGroups": [api_group], "resources": ["*"], "verbs": ["*"]}],
        },
        {
            "apiVersion": f"{rbac}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": "keda-hpa-controller-external-metrics"},
            "roleRef": {
                "apiGroup": rbac,
                "kind": "ClusterRole",
                "name": "keda-external-metrics-reader",
            },
            "subjects": [
                {
                    "kind": "ServiceAccount",
                    "name": "horizontal-pod-autoscaler",
                    "namespace": "kube-system",
                }
            ],
        },
    ]


def _service(name: str, port: int) -> list[dict[str, Any]]:
    metadata = {"name": name, "namespace": NAMESPACE}
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


def _are_established(kubeconfig: Path) -> bool:
    """Say whether every definition is served; the webhooks end when one is not."""
    api = client.ApiextensionsV1Api(config.new_client_from_config(str(kubeconfig)))
    return all(
        any(c.type == "Established" and c.status == "True" for c in item.status.conditions or [])
        for item in api.list_custom_resource_definition().items
    )


def _is_available(kubeconfig: Path) -> bool:
    api = client.ApiregistrationV1Api(config.new_client_from_config(str(kubeconfig)))
    status = api.read_api_service("v1beta1.external.metrics.k8s.io").status
    return any(c.type == "Available" and c.status == "True" for c in status.conditions or [])
