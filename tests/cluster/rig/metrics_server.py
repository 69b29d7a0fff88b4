"""metrics-server as a plain process: the pods' CPU and memory from the kubelet."""

from __future__ import annotations

import base64

from tests.cluster.rig.api_objects import Applier, api_service, is_served, service
from tests.cluster.rig.binaries import Binaries
from tests.cluster.rig.control_plane import Credentials
from tests.cluster.rig.daemons import Daemons

_NAME, _NAMESPACE, _PORT = "metrics-server", "kube-system", 6445
_GROUP, _VERSION = "metrics.k8s.io", "v1beta1"


def start_metrics_server(daemons: Daemons, binaries: Binaries, credentials: Credentials) -> None:
    """Start it and wait until the resource metrics API is served."""
    pair = credentials.authority.issue(
        _NAME, common_name=_NAME, hosts=(_NAME, f"{_NAME}.{_NAMESPACE}.svc", "127.0.0.1")
    )
    kubeconfig = str(credentials.admin)
    daemons.start(
        _NAME,
        [
            binaries.path(_NAME),
            f"--kubeconfig={kubeconfig}",
            f"--authentication-kubeconfig={kubeconfig}",
            f"--authorization-kubeconfig={kubeconfig}",
            f"--secure-port={_PORT}",
            f"--tls-cert-file={pair.certificate}",
            f"--tls-private-key-file={pair.key}",
            f"--kubelet-certificate-authority={credentials.authority.certificate}",
            "--kubelet-preferred-address-types=InternalIP",
            "--metric-resolution=10s",  # the shortest that it takes, and longer than a request
            "--kubelet-request-timeout=5s",
        ],
    )
    bundle = base64.b64encode(credentials.authority.certificate.read_bytes()).decode()
    Applier(credentials.admin).all(
        [
            *service(_NAME, _NAMESPACE, _PORT),
            api_service(_GROUP, _VERSION, _NAME, _NAMESPACE, bundle),
        ]
    )
    daemons.wait(
        "the resource metrics API",
        lambda: is_served(credentials.admin, f"{_VERSION}.{_GROUP}"),
        daemon=_NAME,
    )
