"""One node: containerd, the kubelet and kube-proxy; pods get a bridge network."""

from __future__ import annotations

import contextlib
import json
import subprocess
from pathlib import Path

import yaml
from kubernetes import client, config
from kubernetes.client.exceptions import ApiException
from urllib3.exceptions import HTTPError

from tests.cluster.rig.binaries import Binaries
from tests.cluster.rig.control_plane import Credentials, listens
from tests.cluster.rig.daemons import Daemons
from tests.cluster.rig.images import PAUSE, write_pause_image
from tests.cluster.rig.network import NODE_ADDRESS, POD_NETWORK

NODE = "rig-node"
_CGROUP_ROOT = Path("/sys/fs/cgroup")
_V1_CONTROLLERS = (
    "cpu", "cpuacct", "cpuset", "memory", "devices", "freezer", "blkio", "pids", "systemd",
)  # fmt: skip
_CTR_LIMIT_SECONDS = 180
_IMPORT_LIMIT_SECONDS = 600  # Spark's image has 1.5 GB
_HEALTH_PORT = 10248


def start_node(
    daemons: Daemons, binaries: Binaries, credentials: Credentials, folder: Path
) -> None:
    """Start containerd, kubelet and proxy; returns when the node is Ready."""
    _start_containerd(daemons, folder)
    pause = folder / "pause.tar"
    write_pause_image(pause)
    import_image(folder, pause)
    _make_cgroups()
    start_kubelet(daemons, binaries, credentials, folder)
    daemons.start(
        "kube-proxy",
        [
            binaries.path("kube-proxy"),
            f"--kubeconfig={credentials.admin}",
            f"--hostname-override={NODE}",
            "--proxy-mode=iptables",
            f"--cluster-cidr={POD_NETWORK}",
            "--conntrack-max-per-core=0",  # the host's limits are not this namespace's to set
            "--conntrack-tcp-timeout-established=0",
            "--conntrack-tcp-timeout-close-wait=0",
            "--healthz-bind-address=127.0.0.1:10256",
            "--metrics-bind-address=127.0.0.1:10249",
        ],
    )
    daemons.wait(
        "the node", lambda: _is_ready(credentials.admin), daemon="kubelet", limit_seconds=300
    )


def start_kubelet(
    daemons: Daemons, binaries: Binaries, credentials: Credentials, folder: Path
) -> None:
    """Start the kubelet and wait until it finds itself healthy; it takes up the pods it finds."""
    settings = folder / "kubelet.yaml"
    settings.write_text(yaml.safe_dump(_kubelet_settings(credentials, folder)), encoding="utf-8")
    daemons.start(
        "kubelet",
        [
            binaries.path("kubelet"),
            f"--config={settings}",
            f"--kubeconfig={credentials.node}",
            f"--hostname-override={NODE}",
            f"--node-ip={NODE_ADDRESS}",
            f"--root-dir={folder / 'kubelet'}",
            f"--cert-dir={folder / 'kubelet' / 'pki'}",
            "--v=2",
        ],
    )
    daemons.wait("the kubelet", lambda: listens("127.0.0.1", _HEALTH_PORT), daemon="kubelet")


def clear_node(daemons: Daemons, credentials: Credentials, folder: Path) -> None:
    """Remove all containers: their shims outlive containerd."""
    daemons.stop("kubelet")
    for task in _ctr(folder, "tasks", "ls", "-q").split():
        _ctr(folder, "tasks", "kill", "--signal", "SIGKILL", task)
    for task in _ctr(folder, "tasks", "ls", "-q").split():
        _ctr(folder, "tasks", "delete", "--force", task)
    for container in _ctr(folder, "containers", "ls", "-q").split():
        _ctr(folder, "containers", "delete", container)
    daemons.stop("containerd")
    unmount_below(folder)
    _remove_cgroups()


def unmount_below(folder: Path) -> None:
    """Unmount what the kubelet and containerd mounted below ``folder``, the innermost first."""
    fields = [line.split() for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    points = [parts[4] for parts in fields if Path(parts[4]).is_relative_to(folder)]
    for point in sorted(points, key=len, reverse=True):
        subprocess.run(["umount", "--lazy", point], check=False, capture_output=True, timeout=60)


def import_image(folder: Path, archive: Path) -> None:
    """Import an image archive under the name that it carries."""
    _ctr(folder, "images", "import", str(archive), limit_seconds=_IMPORT_LIMIT_SECONDS)


def _ctr(folder: Path, *arguments: str, limit_seconds: float = _CTR_LIMIT_SECONDS) -> str:
    done = subprocess.run(
        ["ctr", "-a", str(_socket(folder)), "-n", "k8s.io", *arguments],
        check=False,
        capture_output=True,
        text=True,
        timeout=limit_seconds,
    )
    return done.stdout if done.returncode == 0 else ""


def _socket(folder: Path) -> Path:
    return folder / "containerd.sock"


def _start_containerd(daemons: Daemons, folder: Path) -> None:
    networks, state = folder / "cni", folder / "containerd"
    networks.mkdir(exist_ok=True)
    bridge = {
        "cniVersion": "0.4.0",
        "name": "rig",
        "plugins": [
            {
                "type": "bridge",
                "bridge": "rigcni0",
                "isGateway": True,
                "ipMasq": False,
                "hairpinMode": True,
                "ipam": {
                    "type": "host-local",
                    "ranges": [[{"subnet": POD_NETWORK}]],
                    "routes": [{"dst": "0.0.0.0/0"}],
                    "dataDir": str(folder / "cni-addresses"),
                },
            },
            {"type": "portmap", "capabilities": {"portMappings": True}},
        ],
    }
    (networks / "10-bridge.conflist").write_text(json.dumps(bridge), encoding="utf-8")
    settings = folder / "containerd.toml"
    settings.write_text(
        f"""version = 2
root = "{state / "root"}"
state = "{state / "state"}"
[grpc]
  address = "{_socket(folder)}"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{PAUSE}"
  disable_tcp_service = true
  restrict_oom_score_adj = true  # without CAP_SYS_RESOURCE runc cannot lower a score
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "{networks}"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
    default_runtime_name = "runc"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        SystemdCgroup = false
""",
        encoding="utf-8",
    )
    daemons.start("containerd", ["containerd", "-c", str(settings)])
    daemons.wait("containerd", lambda: bool(_ctr(folder, "version")), daemon="containerd")


def _cgroup() -> str:
    """Return the name of this rig's cgroup: a kubelet ends pods in its own that it knows not.

    Two rigs have two networks, and the number of its network tells them apart.
    """
    return f"lagbench-rig-{Path('/proc/self/ns/net').stat().st_ino}"


def _make_cgroups() -> None:
    """Make the rig's own cgroup under each controller of a v1 hierarchy, or the one of v2."""
    if (_CGROUP_ROOT / "cgroup.controllers").exists():
        (_CGROUP_ROOT / _cgroup()).mkdir(exist_ok=True)
        return
    for controller in _V1_CONTROLLERS:
        if (_CGROUP_ROOT / controller).is_dir():
            (_CGROUP_ROOT / controller / _cgroup()).mkdir(exist_ok=True)


def _remove_cgroups() -> None:
    """Remove the rig's cgroups, runc's too, the innermost first; one that is not empty stays."""
    for folder in (_CGROUP_ROOT / _cgroup(), *_CGROUP_ROOT.glob(f"*/{_cgroup()}")):
        below = sorted((path for path in folder.rglob("*") if path.is_dir()), reverse=True)
        for place in [*below, folder]:
            with contextlib.suppress(OSError):
                place.rmdir()


def _kubelet_settings(credentials: Credentials, folder: Path) -> dict[str, object]:
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": NODE_ADDRESS,
        "port": 10250,
        "healthzBindAddress": "127.0.0.1",
        "healthzPort": _HEALTH_PORT,
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(credentials.authority.certificate)},
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": str(credentials.node_pair.certificate),
        "tlsPrivateKeyFile": str(credentials.node_pair.key),
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{_cgroup()}",
        "failCgroupV1": False,
        "failSwapOn": False,
        "containerRuntimeEndpoint": f"unix://{_socket(folder)}",
        "clusterDomain": "cluster.local",
        "resolvConf": "/dev/null",
        "maxPods": 110,
        "podCIDR": POD_NETWORK,
        "evictionHard": {"memory.available": "100Mi", "nodefs.available": "1%"},
        # Without a registry an image that is removed is gone; 100 takes none off a full disk.
        "imageGCHighThresholdPercent": 100,
        "enforceNodeAllocatable": [],
        "cgroupsPerQOS": True,
        "podLogsDir": str(folder / "pod-logs"),
    }


def _is_ready(kubeconfig: Path) -> bool:
    core = client.CoreV1Api(config.new_client_from_config(str(kubeconfig)))
    try:
        conditions = core.read_node_status(NODE).status.conditions or []
    except (ApiException, HTTPError, OSError):
        return False
    return any(c.type == "Ready" and c.status == "True" for c in conditions)
