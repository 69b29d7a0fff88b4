"""Start and stop a real localkube for tests."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from kubernetes import config
from kubernetes.dynamic import DynamicClient
from tests.eventually import eventually

from localkube.processes import end_process, start_tied

COMMAND = [sys.executable, "-m", "lagbench.embedded.localkube_with_keda"]


@dataclass(frozen=True, slots=True)
class LocalkubeProcess:
    """A running localkube."""

    process: subprocess.Popen[bytes]
    state_dir: Path

    @property
    def kubeconfig(self) -> Path:
        """The file by which clients reach it."""
        return self.state_dir / "kubeconfig"

    @property
    def info(self) -> dict[str, Any]:
        """Its own report: pid, port, started_at."""
        found: dict[str, Any] = json.loads((self.state_dir / "localkube.json").read_text())
        return found

    def client(self) -> DynamicClient:
        """Return the official client, connected."""
        return client_of(self.kubeconfig)

    def log(self, pod: str) -> str:
        """Return what the container of a pod has written so far."""
        path = self.state_dir / "pods" / f"default_{pod}" / "main.log"
        return path.read_text() if path.exists() else ""

    def kubectl(self, *arguments: str) -> str:
        """Return the output of kubectl; skip the test where there is none."""
        command = shutil.which("kubectl")
        if command is None:
            pytest.skip("no kubectl on this machine")
        ended = subprocess.run(
            [command, f"--kubeconfig={self.kubeconfig}", *arguments],
            capture_output=True,
            text=True,
            timeout=180,
            check=False,
        )
        assert ended.returncode == 0, ended.stderr
        return ended.stdout


def client_of(kubeconfig: Path) -> DynamicClient:
    """Return a DynamicClient for the current context of a kubeconfig."""
    return DynamicClient(config.new_client_from_config(config_file=str(kubeconfig)))


def running_localkube(state_dir: Path) -> AbstractContextManager[LocalkubeProcess]:
    """Run the bench's localkube for the time of the block."""
    return started_localkube(COMMAND, state_dir)


@contextmanager
def started_localkube(
    command: Sequence[str | Path], state_dir: Path, env: Mapping[str, str] | None = None
) -> Iterator[LocalkubeProcess]:
    """Run what ``command`` starts for the time of the block."""
    state_dir.mkdir(parents=True, exist_ok=True)
    log_file = state_dir / "localkube.log"
    with log_file.open("ab") as log:
        process = start_tied([*map(str, command), "--state-dir", str(state_dir)], log=log, env=env)
    try:
        eventually(
            lambda: (state_dir / "localkube.json").exists() or process.poll() is not None,
            "localkube.json",
        )
        if process.poll() is not None:
            raise AssertionError(
                f"localkube ended with {process.returncode}:\n{log_file.read_text()}"
            )
        yield LocalkubeProcess(process, state_dir)
    finally:
        end_process(process.pid, grace_seconds=20)
        process.wait(timeout=60)
