"""The root file system under all stand-ins: Debian's smallest, with this machine's settings."""

from __future__ import annotations

import configparser
import io
import subprocess
import sys
from pathlib import Path

from tests.cluster.rig.program_image import debian_layer

BASE = "debian:bookworm-slim"
_AUTHORITIES = Path("/etc/ssl/certs/ca-certificates.crt")
_PIP_SETTINGS = ("index-url", "extra-index-url", "trusted-host")
_STEP_LIMIT_SECONDS = 300


def base_layer() -> Path:
    """Return the archive of the root file system, made when it is not there."""
    return debian_layer("compose", ["ca-certificates"], _with_settings_of_this_machine)


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


def _with_settings_of_this_machine(root: Path) -> None:
    """Give apt and everybody else in containers this machine's mirrors and authorities."""
    (root / _AUTHORITIES.relative_to("/")).write_bytes(_AUTHORITIES.read_bytes())
    mirrors = _mirrors()
    if not mirrors:  # apt has read no lists yet
        _output(["apt-get", "update", "-qq"])
        mirrors = _mirrors()
    (root / "etc/apt/sources.list").write_text("".join(f"{mirror}\n" for mirror in mirrors))
    ways = [
        item
        for item in _output(["apt-config", "dump"]).splitlines()
        if item.startswith(("Acquire::http::", "Acquire::https::"))
    ]
    (root / "etc/apt/apt.conf.d/90machine").write_text("".join(f"{way}\n" for way in ways))


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
