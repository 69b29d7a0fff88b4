"""A run that is followed ends with the user's interrupt, whatever else fails."""

from __future__ import annotations

import io
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from lagbench.cli.rehearsal import follow
from lagbench.cli.terminal import Terminal
from lagbench.errors import NotReady
from lagbench.orchestrator import dag_run


class Unreachable:
    """A Dag run whose server does not answer, and whose user has pressed Ctrl-C."""

    def __init__(self, *_: object) -> None:
        """Take what a Dag run takes."""

    def start(self) -> None:
        """Start."""

    def is_finished(self) -> bool:
        """Be interrupted."""
        raise KeyboardInterrupt

    def cancel(self) -> None:
        """Fail."""
        raise NotReady("Airflow does not answer")

    def where_to_look(self) -> str:
        """Return the run's page."""
        return "logs: http://127.0.0.1:8080/runs/a"


class Interrupted(Unreachable):
    """A Dag run whose user has pressed Ctrl-C while it was triggered."""

    cancelled = 0

    def start(self) -> None:
        """Be interrupted, when the server may have the request."""
        raise KeyboardInterrupt

    def cancel(self) -> None:
        """Count."""
        Interrupted.cancelled += 1


class Waiting(Interrupted):
    """A Dag run that waits for a bench that has gone."""

    def start(self) -> None:
        """Start."""

    def is_finished(self) -> bool:
        """Wait."""
        return False


@pytest.fixture(autouse=True)
def _signals() -> Iterator[None]:
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


def test_an_interrupt_goes_on_when_the_run_cannot_be_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An experiment would start the next run otherwise; the user is told where the first one is."""
    monkeypatch.setenv("LAGBENCH_RUNS_DIR", str(tmp_path))
    monkeypatch.setattr(dag_run, "ProcessDagRun", Unreachable)
    said = io.StringIO()

    with pytest.raises(KeyboardInterrupt):
        follow(
            Terminal(file=said, width=200),
            tmp_path,
            {},
            conf={"run_id": "a", "scenario": "quick_spike"},
            server=None,
        )

    assert "logs: http" in said.getvalue()


def test_an_interrupt_of_the_trigger_stops_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server may have taken the trigger whose answer nobody waited for."""
    monkeypatch.setenv("LAGBENCH_RUNS_DIR", str(tmp_path))
    monkeypatch.setattr(dag_run, "ProcessDagRun", Interrupted)
    monkeypatch.setattr(Interrupted, "cancelled", 0)

    with pytest.raises(KeyboardInterrupt):
        follow(
            Terminal(file=io.StringIO()),
            tmp_path,
            {},
            conf={"run_id": "a", "scenario": "quick_spike"},
            server=None,
        )

    assert Interrupted.cancelled == 1


@pytest.mark.parametrize(("free", "says"), [(0, "no space left on"), (2**40, "supervisor.log")])
def test_a_run_ends_with_its_bench(
    free: int, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every wait of its tasks would last to its limit; the message says why the bench ended."""
    monkeypatch.setenv("LAGBENCH_RUNS_DIR", str(tmp_path))
    monkeypatch.setattr("lagbench.embedded.broker.free_disk_bytes", lambda _: free)
    monkeypatch.setattr(dag_run, "ProcessDagRun", Waiting)
    monkeypatch.setattr(Interrupted, "cancelled", 0)

    with pytest.raises(NotReady, match=says):
        follow(
            Terminal(file=io.StringIO()),
            tmp_path,
            {},
            conf={"run_id": "a", "scenario": "quick_spike"},
            server=None,
            has_bench=lambda: False,
        )

    assert Interrupted.cancelled == 1
