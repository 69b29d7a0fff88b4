"""A policy on Prometheus where the program is not installed."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from lagbench.catalog.catalog import load_policy
from lagbench.cli import main
from lagbench.embedded.doctor import require_prometheus
from lagbench.errors import ExitCode, NotReady


@pytest.fixture
def without_program(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Provide a machine with no program, and an empty state folder."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("LAGBENCH_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("LAGBENCH_RUNS_DIR", str(tmp_path / "runs"))
    return tmp_path


@pytest.mark.usefixtures("without_program")
def test_the_package_is_named() -> None:
    """Only a policy that asks Prometheus needs it."""
    require_prometheus(load_policy("lag-quick").manifest, where="lag-quick")

    with pytest.raises(NotReady, match=r"apt-get install .*prometheus"):
        require_prometheus(load_policy("prometheus-lag").manifest, where="prometheus-lag")


def test_a_run_is_rejected_before_anything_starts(
    without_program: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Exit code 3, one message, and neither a bench nor a run folder."""
    command = ["lagbench", "run", "quick_spike", "--policy", "prometheus-lag"]
    monkeypatch.setattr(sys, "argv", command)

    with pytest.raises(SystemExit) as ended:
        main()

    assert ended.value.code == ExitCode.NOT_READY
    assert "prometheus-lag" in capsys.readouterr().err
    assert list(without_program.iterdir()) == []
