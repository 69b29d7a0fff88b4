"""Start and stop a real localkube for tests."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kubernetes import config
from kubernetes.dynamic import DynamicClient
from tests.eventually import eventually

from lagbench.adapters.process.processes import end_process, start_tied


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


def client_of(kubeconfig: Path) -> DynamicClient:
    """Return a DynamicClient for the current context of a kubeconfig."""
    return DynamicClient(config.new_client_from_config(config_file=str(kubeconfig)))


@contextmanager
def running_localkube(state_dir: Path) -> Iterator[LocalkubeProcess]:
    """Run a localkube for the time of the block."""
    state_dir.mkdir(parents=True, exist_ok=True)
    log_file = state_dir / "localkube.log"
    with log_file.open("ab") as log:
        process = start_tied(
            [sys.executable, "-m", "lagbench.localkube", "--state-dir", str(state_dir)], log=log
        )
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
