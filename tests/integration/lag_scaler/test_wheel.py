"""The lag scaler as a wheel of its own, in an environment that has nothing of lagbench."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from uuid import uuid4

import grpc
import pytest
from tests.eventually import eventually
from tests.integration.autoscaler_setting import LagControl
from tests.integration.lag_scaler.scaler_process import Keda, running_scaler

from lagbench.embedded.broker import Broker
from lagbench.project import PROJECT_ROOT

pytestmark = pytest.mark.slow
UV = Path(sys.executable).with_name("uv")


def test_it_serves_keda_without_lagbench(broker: Broker, tmp_path: Path) -> None:
    """Built, installed with what it names and no more, started: it answers for a real group."""
    for name in ("lag_scaler", "pod_program"):
        shutil.copytree(PROJECT_ROOT / "include" / name, tmp_path / name)
    python = tmp_path / "venv" / "bin" / "python"
    _uv("build", "--wheel", "--out-dir", tmp_path, tmp_path / "lag_scaler")
    (wheel,) = tmp_path.glob("*.whl")
    _uv("venv", "--python", sys.executable, tmp_path / "venv")
    locked = PROJECT_ROOT / "k8s" / "images" / "programs.txt"
    _uv("pip", "install", "--python", python, "--constraint", locked, wheel)
    has_lagbench = subprocess.run([python, "-I", "-c", "import lagbench"], check=False)
    lag = LagControl(broker.bootstrap_servers, f"t-{uuid4().hex[:8]}", f"g-{uuid4().hex[:8]}", 1)
    lag.prepare()
    lag.set_lag(50)
    metadata = {
        "bootstrapServers": broker.bootstrap_servers,
        "topic": lag.topic,
        "consumerGroup": lag.group,
        "lagThreshold": "10",
        "sustainSeconds": "0",
    }

    with (
        running_scaler(tmp_path, python=(str(python), "-I")) as scaler,
        grpc.insecure_channel(scaler.address) as channel,
    ):
        keda = Keda(channel, "alone", metadata)
        eventually(lambda: keda.answers() == (True, 10.0, 10.0), "KEDA's answers")
        assert scaler.end() < 60

    assert has_lagbench.returncode == 1


def _uv(*arguments: str | Path) -> None:
    subprocess.run([UV, *arguments], check=True, timeout=300)
