"""etcd, the API server, the controller manager and the scheduler, as plain processes."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from pathlib import Path

from kubernetes import client, config
from kubernetes.client.exceptions import ApiException
from urllib3.exceptions import HTTPError

from tests.cluster.rig.binaries import Binaries
from tests.cluster.rig.certificates import Authority, Pair, write_key_pair, write_kubeconfig
from tests.cluster.rig.daemons import Daemons
from tests.cluster.rig.network import NODE_ADDRESS, POD_NETWORK, SERVICE_NETWORK

_ETCD = "http://127.0.0.1:2379"
SERVER = "https://127.0.0.1:6443"
_API_HOSTS = (
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
    "localhost",
    "127.0.0.1",
    NODE_ADDRESS,
    "10.96.0.1",
)


@dataclass(frozen=True, slots=True)
class Credentials:
    """The certificates and kubeconfigs of one rig."""

    folder: Path
    authority: Authority
    front_proxy: Authority
    admin: Path
    controller_manager: Path
    scheduler: Path
    node: Path
    node_pair: Pair


def issue_credentials(folder: Path, node: str) -> Credentials:
    """Make all certificates and kubeconfigs of a cluster with one node."""
    folder.mkdir(parents=True, exist_ok=True)
    authority = Authority.create("ca", folder)
    front = Authority.create("front-proxy-ca", folder)
    authority.issue("apiserver", common_name="kube-apiserver", hosts=_API_HOSTS)
    authority.issue(
        "apiserver-kubelet", common_name="kube-apiserver-kubelet", organization="system:masters"
    )
    front.issue("front-proxy", common_name="front-proxy-client")
    write_key_pair(folder, "service-accounts")
    node_pair = authority.issue(
        "node",
        common_name=f"system:node:{node}",
        organization="system:nodes",
        hosts=(node, NODE_ADDRESS, "127.0.0.1"),
    )
    clients = {
        "admin": authority.issue("admin", common_name="admin", organization="system:masters"),
        "manager": authority.issue("manager", common_name="system:kube-controller-manager"),
        "scheduler": authority.issue("scheduler", common_name="system:kube-scheduler"),
        "kubelet": node_pair,
    }
    files = {
        name: write_kubeconfig(
            folder / f"{name}.kubeconfig",
            server=SERVER,
            authority=authority.certificate,
            client=pair,
        )
        for name, pair in clients.items()
    }
    return Credentials(
        folder,
        authority,
        front,
        files["admin"],
        files["manager"],
        files["scheduler"],
        files["kubelet"],
        node_pair,
    )


def start_control_plane(
    daemons: Daemons, binaries: Binaries, credentials: Credentials, data: Path
) -> None:
    """Start everything but nodes; returns when the API server is ready."""
    start_etcd(daemons, binaries, data)
    start_api_server(daemons, binaries, credentials)
    keys = credentials.folder
    manager = str(credentials.controller_manager)
    daemons.start(
        "kube-controller-manager",
        [
            binaries.path("kube-controller-manager"),
            f"--kubeconfig={manager}",
            f"--authentication-kubeconfig={manager}",
            f"--authorization-kubeconfig={manager}",
            "--bind-address=127.0.0.1",
            "--leader-elect=false",
            "--use-service-account-credentials=true",
            f"--service-account-private-key-file={keys / 'service-accounts.key'}",
            f"--root-ca-file={credentials.authority.certificate}",
            f"--cluster-cidr={POD_NETWORK}",
            "--allocate-node-cidrs=false",
            f"--service-cluster-ip-range={SERVICE_NETWORK}",
            f"--horizontal-pod-autoscaler-sync-period={os.environ.get('HPA_SYNC', '15s')}",
            # Level 6 of this one file logs every HPA decision with its inputs.
            "--v=2",
            "--vmodule=horizontal=6",
        ],
    )
    scheduler = str(credentials.scheduler)
    daemons.start(
        "kube-scheduler",
        [
            binaries.path("kube-scheduler"),
            f"--kubeconfig={scheduler}",
            f"--authentication-kubeconfig={scheduler}",
            f"--authorization-kubeconfig={scheduler}",
            "--bind-address=127.0.0.1",
            "--leader-elect=false",
        ],
    )
    core = client.CoreV1Api(config.new_client_from_config(str(credentials.admin)))
    daemons.wait(
        "the default service account",
        lambda: _answers(lambda: core.read_namespaced_service_account("default", "default")),
        daemon="kube-controller-manager",
    )


def start_etcd(daemons: Daemons, binaries: Binaries, data: Path) -> None:
    """Start etcd and wait until it listens."""
    daemons.start(
        "etcd",
        [
            binaries.path("etcd"),
            "--name=rig",
            f"--data-dir={data / 'etcd'}",
            f"--listen-client-urls={_ETCD}",
            f"--advertise-client-urls={_ETCD}",
            "--listen-peer-urls=http://127.0.0.1:2380",
            "--initial-advertise-peer-urls=http://127.0.0.1:2380",
            "--initial-cluster=rig=http://127.0.0.1:2380",
            "--unsafe-no-fsync",  # its data is worth nothing after the rig's end
        ],
    )
    daemons.wait("etcd", lambda: listens("127.0.0.1", 2379), daemon="etcd")


def start_api_server(daemons: Daemons, binaries: Binaries, credentials: Credentials) -> None:
    """Start the API server and wait until it is ready."""
    keys, authority = credentials.folder, credentials.authority.certificate
    daemons.start(
        "kube-apiserver",
        [
            binaries.path("kube-apiserver"),
            f"--etcd-servers={_ETCD}",
            "--bind-address=0.0.0.0",
            "--secure-port=6443",
            f"--advertise-address={NODE_ADDRESS}",
            f"--service-cluster-ip-range={SERVICE_NETWORK}",
            "--authorization-mode=Node,RBAC",
            "--allow-privileged=true",
            f"--client-ca-file={authority}",
            f"--tls-cert-file={keys / 'apiserver.crt'}",
            f"--tls-private-key-file={keys / 'apiserver.key'}",
            f"--kubelet-client-certificate={keys / 'apiserver-kubelet.crt'}",
            f"--kubelet-client-key={keys / 'apiserver-kubelet.key'}",
            f"--kubelet-certificate-authority={authority}",
            "--kubelet-preferred-address-types=InternalIP",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={keys / 'service-accounts.pub'}",
            f"--service-account-signing-key-file={keys / 'service-accounts.key'}",
            f"--requestheader-client-ca-file={credentials.front_proxy.certificate}",
            "--requestheader-allowed-names=front-proxy-client",
            "--requestheader-extra-headers-prefix=X-Remote-Extra-",
            "--requestheader-group-headers=X-Remote-Group",
            "--requestheader-username-headers=X-Remote-User",
            f"--proxy-client-cert-file={keys / 'front-proxy.crt'}",
            f"--proxy-client-key-file={keys / 'front-proxy.key'}",
            # KEDA's metrics adapter is no pod here, so requests go to its endpoint directly.
            "--enable-aggregator-routing=true",
            "--shutdown-watch-termination-grace-period=1s",
        ],
    )
    api = config.new_client_from_config(str(credentials.admin))
    daemons.wait(
        "the API server",
        lambda: _answers(lambda: api.call_api("/readyz", "GET", response_types_map={200: "str"})),
        daemon="kube-apiserver",
    )


def listens(host: str, port: int) -> bool:
    """Return whether something accepts connections there."""
    try:
        socket.create_connection((host, port), timeout=10.0).close()
    except OSError:
        return False
    return True


def _answers(call: object) -> bool:
    try:
        call()  # type: ignore[operator]
    except (ApiException, HTTPError, OSError):
        return False
    return True
