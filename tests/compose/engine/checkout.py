"""A copy of this checkout for the engine: containers mount it, and its .env is the copy's own."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from lagbench.project import PROJECT_ROOT


def copy_checkout(target: Path) -> None:
    """Copy what git knows or would add, edits included, and make the secrets.

    Containers run as other users, so what is copied can be read by all, whatever the umask was.
    """
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(
        command, cwd=PROJECT_ROOT, check=True, capture_output=True, text=True, timeout=60
    )
    for name in filter(None, listed.stdout.split("\0")):
        source, copy = PROJECT_ROOT / name, target / name
        if source.is_file():
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, copy)
            copy.chmod(copy.stat().st_mode | 0o444)
    subprocess.run(
        ["make", "--silent", ".env"], cwd=target, check=True, capture_output=True, timeout=60
    )
    with (target / ".env").open("a") as settings:  # the suite's own scenario is copied there
        settings.write("LAGBENCH_ALLOWED_FOLDERS=/opt/airflow\n")


def secret(checkout: Path, name: str) -> str:
    """Return a value of the checkout's .env."""
    lines = (checkout / ".env").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if "=" in line)[name]
