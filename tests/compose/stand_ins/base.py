"""The root file system under all stand-ins: Debian's smallest, with this machine's settings."""

from __future__ import annotations

import configparser
import hashlib
import io
import subprocess
import sys
from pathlib import Path

from tests.cluster.rig.program_image import ImageFailed, debian_layer

BASE = "debian:bookworm-slim"
_AUTHORITIES = Path("/etc/ssl/certs/ca-certificates.crt")
_PIP_SETTINGS = ("index-url", "extra-index-url", "trusted-host")
_STEP_LIMIT_SECONDS = 300


def base_layer() -> Path:
    """Return the archive of the root file system, made when there is none with these settings.

    :raises ImageFailed: apt names no mirror, or a step of making it failed.
    """
    settings = _settings_of_this_machine()

    def write_settings(root: Path) -> None:
        for name, content in settings.items():
            (root / name).write_bytes(content)

    key = hashlib.sha256(repr(sorted(settings.items())).encode()).hexdigest()[:12]
    return debian_layer(f"compose-{key}", ["ca-certificates"], write_settings)


def pip_settings() -> str:
    """Return a pip.conf with the index that this machine's pip uses."""
    listed = _output([sys.executable, "-m", "pip", "config", "list"])
    found = dict(line.partition("=")[::2] for line in listed.splitlines())
    settings = configparser.ConfigParser(interpolation=None)
    settings["global"] = {"cert": str(_AUTHORITIES)}
    for source in ("global", ":env:"):
        for name in _PIP_SETTINGS:
            if value := found.get(f"{source}.{name}"):
                settings["global"][name] = value.strip("'\"")
    text = io.StringIO()
    settings.write(text)
    return text.getvalue()


def _settings_of_this_machine() -> dict[str, bytes]:
    """Return the files that give containers this machine's mirrors and authorities, by path."""
    mirrors = _mirrors()
    if not mirrors:  # apt has read no lists yet
        _output(["apt-get", "update", "-qq"])
        mirrors = _mirrors()
    if not mirrors:
        raise ImageFailed("apt names no mirror of Debian's packages: see /etc/apt/sources.list")
    ways = [
        item
        for item in _output(["apt-config", "dump"]).splitlines()
        if item.startswith(("Acquire::http::", "Acquire::https::"))
    ]
    return {
        str(_AUTHORITIES.relative_to("/")): _AUTHORITIES.read_bytes(),
        "etc/apt/sources.list": "".join(f"{mirror}\n" for mirror in mirrors).encode(),
        "etc/apt/apt.conf.d/90machine": "".join(f"{way}\n" for way in ways).encode(),
    }


def _mirrors() -> list[str]:
    """Return the lines of a sources.list for Debian's packages, as this machine fetches them."""
    line = "deb $(REPO_URI) $(RELEASE) $(COMPONENT)"
    command = [
        "apt-get",
        "indextargets",
        "--format",
        line,
        "Identifier: Packages",
        "Origin: Debian",
    ]
    return sorted(set(_output(command).splitlines()))


def _output(command: list[str]) -> str:
    return subprocess.run(
        command, check=True, capture_output=True, text=True, timeout=_STEP_LIMIT_SECONDS
    ).stdout
