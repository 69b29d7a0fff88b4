"""What a machine needs for an engine of its own: Debian 12, root, namespaces, overlays, a tunnel.

It imports the standard library alone: .ci/run asks it before anything is installed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

NAMESPACES = ("--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")
"""What of its own an engine has, as options of unshare."""
_TOOLS = {
    "unshare": "util-linux",
    "ip": "iproute2",
    "debootstrap": "debootstrap",
    "go": "golang-go",
    "git": "git",
    "make": "make",
}
_FILES = {"/etc/ssl/certs/ca-certificates.crt": "ca-certificates"}
_TUNNEL = Path("/dev/net/tun")
_GIBIBYTE = 2**30
_FREE_GIBIBYTES = 10  # the images, their stages and the volumes took 8.4
_TRIAL = """
mkdir lower upper work merged
mount -t overlay overlay -o lowerdir=lower,upperdir=upper,workdir=work merged
ip link add lagbench0 type veth peer name lagbench1
ip link add name lagbench2 type bridge
"""


def problem() -> str | None:
    """Return what keeps an engine from running on this machine, or None."""
    if os.geteuid() != 0:
        return "namespaces and containers need root: run it as root"
    if lacking := lacking_packages():
        return f"install Debian's packages {' '.join(lacking)}"
    if not _TUNNEL.is_char_device():
        return f"{_TUNNEL} is not there: builds reach the packages through it"
    with tempfile.TemporaryDirectory() as folder:
        free = shutil.disk_usage(folder).free / _GIBIBYTE
        if free < _FREE_GIBIBYTES:
            return f"{folder} has {free:.0f} GiB free: the images need {_FREE_GIBIBYTES}"
        tried = subprocess.run(
            ["unshare", *NAMESPACES, "--", "sh", "-ec", _TRIAL],
            cwd=folder, check=False, capture_output=True, text=True, timeout=60,
        )  # fmt: skip
    if tried.returncode != 0:
        return f"an engine cannot have a network and images here: {tried.stderr.strip()}"
    return None


def lacking_packages() -> list[str]:
    """Return Debian's packages that this machine lacks for an engine."""
    lacking = [package for tool, package in _TOOLS.items() if shutil.which(tool) is None]
    return lacking + [package for file, package in _FILES.items() if not Path(file).exists()]
