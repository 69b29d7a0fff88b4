"""KEDA's operator, metrics adapter and admission webhooks, as plain processes beside the cluster.

Its services have no pods behind them: their EndpointSlices name the node's address.
"""

from __future__ import annotations

import base64
import os
from pathlib import Path
from typing import Any

import yaml
from kubernetes import client, config

from tests.cluster.rig.api_objects import Applier, api_service, is_served, service
from tests.cluster.rig.binaries import Binaries
from tests.cluster.rig.certificates import Authority
from tests.cluster.rig.control_plane import Credentials, listens
from tests.cluster.rig.daemons import Daemons
from tests.cluster.rig.network import NODE_ADDRESS

NAMESPACE = "keda"
_ADAPTER_PORT, _WEBHOOK_PORT, _OPERATOR_PORT = 6444, 9443, 9666
_ADAPTER, _WEBHOOKS = "keda-metrics-apiserver", "keda-admission-webhooks"
_METRICS_GROUP = "external.metrics.k8s.io"


def install_keda(daemons: Daemons, binaries: Binaries, credentials: Credentials) -> None:
    """Apply KEDA's definitions, start its three programs, and wait until metrics are served."""
    authority = Authority.create("keda-ca", credentials.folder)
    hosts = ["localhost", "127.0.0.1", NODE_ADDRESS]
    for name in (_ADAPTER, _WEBHOOKS, "keda-operator"):
        hosts += [name, f"{name}.{NAMESPACE}.svc"]
    # One pair is the adapter's, the webhooks' and the operator's: server and client at once.
    folder = credentials.folder / "keda"
    folder.mkdir(exist_ok=True)
    pair = authority.issue("keda", common_name="keda", hosts=hosts)
    (folder / "ca.crt").write_bytes(authority.certificate.read_bytes())
    (folder / "tls.crt").write_bytes(pair.certificate.read_bytes())
    (folder / "tls.key").write_bytes(pair.key.read_bytes())
    bundle = base64.b64encode(authority.certificate.read_bytes()).decode()
    apply = Applier(credentials.admin)
    apply.all(_definitions(binaries.crds))
    daemons.wait(
        "KEDA's definitions",
        lambda: _are_established(credentials.admin),
        daemon="kube-apiserver",
    )
    apply.all(_objects(bundle))
    start_operator(daemons, binaries, credentials)
    start_adapter(daemons, binaries, credentials)
    start_webhooks(daemons, binaries, credentials)
    apply.all(_webhook_configuration(binaries.webhook_manifests, bundle))
    wait_until_served(daemons, credentials)


def wait_until_served(daemons: Daemons, credentials: Credentials) -> None:
    """Wait until the API server takes the adapter's metrics for available."""
    daemons.wait(
        "the external metrics API",
        lambda: is_served(credentials.admin, f"v1beta1.{_METRICS_GROUP}"),
        daemon="keda-adapter",
    )


def start_operator(daemons: Daemons, binaries: Binaries, credentials: Credentials) -> None:
    """Start the operator and wait until it serves the adapter."""
    daemons.start(
        "keda-operator",
        [
            binaries.path("keda-operator"),
            "--zap-log-level=info",
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
    rbac = "rbac.authorization.k8s.io"
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}},
        *service(_ADAPTER, NAMESPACE, _ADAPTER_PORT),
        *service(_WEBHOOKS, NAMESPACE, _WEBHOOK_PORT),
        api_service(_METRICS_GROUP, "v1beta1", _ADAPTER, NAMESPACE, bundle),
        {
            "apiVersion": f"{rbac}/v1",
            "kind": "ClusterRole",
            "metadata": {"name": "keda-external-metrics-reader"},
            "rules": [{"apiGroups": [_METRICS_GROUP], "resources": ["*"], "verbs": ["*"]}],
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


def _are_established(kubeconfig: Path) -> bool:
    """Return whether every definition is served; the webhooks end when one is not."""
    api = client.ApiextensionsV1Api(config.new_client_from_config(str(kubeconfig)))
    return all(
        any(c.type == "Established" and c.status == "True" for c in item.status.conditions or [])
        for item in api.list_custom_resource_definition().items
    )
