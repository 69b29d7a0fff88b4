"""The rig's own namespaces: everything of a rig talks in there and nowhere else.

``enter`` starts a command with a fresh network (loopback and one address) and its own mounts and
processes; all go when the first process in them ends, also when everything is killed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NoReturn

NODE_ADDRESS = "10.99.0.1"
POD_NETWORK = "10.244.0.0/24"
SERVICE_NETWORK = "10.96.0.0/16"
_INSIDE = "LAGBENCH_RIG_NETWORK"
_TOOLS = {
    "unshare": "util-linux",
    "ip": "iproute2",
    "sysctl": "procps",
    "iptables": "iptables",
    "conntrack": "conntrack",
    "containerd": "containerd",
    "runc": "runc",
    "debootstrap": "debootstrap",
    "gcc": "gcc",
    "go": "golang-go",
}
_FILES = {
    "/usr/lib/cni/bridge": "containernetworking-plugins",
    "/usr/lib/x86_64-linux-gnu/libc.a": "libc6-dev",
    "/etc/ssl/certs/ca-certificates.crt": "ca-certificates",  # go asks the system for them
}
_NAMESPACES = ("--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")


def is_inside() -> bool:
    """Return whether this process runs in a rig's namespace."""
    return os.environ.get(_INSIDE) == "1"


def problem() -> str | None:
    """Return what keeps a rig from starting on this machine, or None."""
    if os.geteuid() != 0:
        return "namespaces and containers need root: run it as root"
    if lacking := lacking_packages():
        return f"install Debian's packages {' '.join(lacking)}"
    tried = subprocess.run(
        ["unshare", *_NAMESPACES, "ip", "link", "add", "rig0", "type", "veth"],
        check=False, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    if tried.returncode != 0:
        return f"a network of its own cannot be made here: {tried.stderr.strip()}"
    return None


def lacking_packages() -> list[str]:
    """Return Debian's packages that this machine lacks for a rig."""
    lacking = [package for tool, package in _TOOLS.items() if shutil.which(tool) is None]
    return lacking + [package for file, package in _FILES.items() if not Path(file).exists()]


def enter(command: list[str]) -> NoReturn:
    """Become ``command`` in fresh namespaces."""
    # Whatever ends this process ends the first one inside, and with it all others: shims too.
    inside = [sys.executable, "-m", "tests.cluster.rig.network", *command]
    os.environ[_INSIDE] = "1"
    os.execvp("unshare", ["unshare", *_NAMESPACES, "--", *inside])


def set_up() -> None:
    """Give this namespace loopback and the node's address; a pair of veths, for want of dummy.

    It has no name server, and who asks for a name is told so at once: Java asks for the name of
    each address that it logs in to by SASL, and would wait 20 s for the machine's own server.
    """
    for line in (
        "ip link set lo up",
        "ip link add rig0 type veth peer name rig1",
        f"ip addr add {NODE_ADDRESS}/24 dev rig0",
        "ip link set rig0 up",
        "ip link set rig1 up",
        "ip route add default via 10.99.0.2 dev rig0",
        "sysctl -qw net.ipv4.ip_forward=1",
        "mount --bind /dev/null /etc/resolv.conf",
    ):
        subprocess.run(line.split(), check=True, capture_output=True, timeout=60)


if __name__ == "__main__":
    set_up()
    os.execvp(sys.argv[1], sys.argv[1:])
