"""The engine's own programs: Debian's packages, unpacked into a folder and not installed."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.compose.engine.versions import cache_folder

_PACKAGES = (
    "docker.io",
    "containerd",
    "runc",
    "tini",
    "iptables",
    "slirp4netns",
    # What these are linked with, as far as Debian's smallest system has it not.
    "libip4tc2",
    "libip6tc2",
    "libxtables12",
    "libmnl0",
    "libnfnetlink0",
    "libnetfilter-conntrack3",
    "libnftnl11",
    "libseccomp2",
    "libslirp0",
    "libglib2.0-0",
)
_IPTABLES = ("iptables", "iptables-save", "iptables-restore")
_STEP_LIMIT_SECONDS = 300


class UnpackFailed(RuntimeError):
    """Debian's packages could not be had; the message ends with what apt printed."""


def unpack_programs() -> Path:
    """Return the folder with the packages' content, fetched when it is not there.

    :raises UnpackFailed: a package could not be fetched or unpacked.
    """
    folder = cache_folder() / "debian"
    if not folder.exists():
        with tempfile.TemporaryDirectory(dir=cache_folder()) as name:
            packages, content = Path(name) / "packages", Path(name) / "content"
            packages.mkdir()
            content.mkdir()
            _download(packages)
            for package in sorted(packages.glob("*.deb")):
                _run(["dpkg", "-x", str(package), str(content)], content)
            _link_iptables(content)
            content.rename(folder)
    return folder


def _link_iptables(content: Path) -> None:
    """Name Debian's one program as its alternatives would, in a folder of its own.

    The legacy one needs no kernel module of nftables.
    """
    links = content / "links"
    links.mkdir()
    for name in (*_IPTABLES, *(item.replace("ip", "ip6", 1) for item in _IPTABLES)):
        (links / name).symlink_to("../usr/sbin/xtables-legacy-multi")


def _download(folder: Path) -> None:
    folder.chmod(0o755)
    command = ["apt-get", "download", "-qq", *_PACKAGES]
    try:
        _run(command, folder)
    except UnpackFailed:  # lists that are old, or not there, name no package that is
        _run(["apt-get", "update", "-qq"], folder)
        for partial in folder.iterdir():
            partial.unlink()
        _run(command, folder)


def _run(command: Sequence[str], folder: Path) -> None:
    if shutil.which(command[0]) is None:
        raise UnpackFailed(f"{command[0]} is not there: this suite needs Debian 12")
    done = subprocess.run(
        command,
        cwd=folder,
        check=False,
        capture_output=True,
        text=True,
        timeout=_STEP_LIMIT_SECONDS,
    )
    if done.returncode != 0:
        tail = (done.stdout + done.stderr)[-1500:]
        raise UnpackFailed(f"{command[0]} failed with exit code {done.returncode}:\n{tail}")
