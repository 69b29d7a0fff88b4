"""A run that is followed ends with the user's interrupt, whatever else fails."""

from __future__ import annotations

import io
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lagbench.cli.rehearsal import follow
from lagbench.cli.terminal import Terminal
from lagbench.errors import NotReady
from lagbench.orchestrator import dag_run


class Scripted:
    """A Dag run whose user presses Ctrl-C in one of its calls; ``fails``: it cannot be stopped."""

    interrupted_in, fails = "", False
    cancelled = 0

    def __init__(self, *_: object) -> None:
        """Take what a Dag run takes."""

    def start(self) -> None:
        """Start; when it is interrupted the server may have the request."""
        self._reach("start")

    def is_finished(self) -> bool:
        """Wait."""
        self._reach("is_finished")
        return False

    def _reach(self, place: str) -> None:
        if self.interrupted_in == place:
            raise KeyboardInterrupt

    def cancel(self) -> None:
        """Count."""
        type(self).cancelled += 1
        if self.fails:
            raise NotReady("Airflow does not answer")

    def where_to_look(self) -> str:
        """Return the run's page."""
        return "logs: http://127.0.0.1:8080/runs/a"


@pytest.fixture(autouse=True)
def _signals(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("LAGBENCH_RUNS_DIR", str(tmp_path))
    monkeypatch.setenv("LAGBENCH_STATE_DIR", str(tmp_path))
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


def followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, **how: Any) -> tuple[int, str]:
    """Follow a run until it is interrupted; return how often it was cancelled, and what is said."""
    kind = type("Run", (Scripted,), how)
    monkeypatch.setattr(dag_run, "ProcessDagRun", kind)
    said, conf = io.StringIO(), {"run_id": "a", "scenario": "quick_spike"}
    terminal = Terminal(file=said, width=200)
    with pytest.raises(KeyboardInterrupt if how else NotReady) as ended:
        follow(terminal, {}, conf=conf, server=None, has_bench=lambda: bool(how))
    return kind.cancelled, said.getvalue() + str(ended.value)


@pytest.mark.parametrize(
    ("how", "says"),
    [
        # The server may have taken the trigger whose answer nobody waited for.
        ({"interrupted_in": "start"}, ""),
        # An experiment would start the next run otherwise; the user is told where this one is.
        ({"interrupted_in": "is_finished", "fails": True}, "logs: http"),
    ],
)
def test_an_interrupt_stops_the_run_and_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: dict[str, Any], says: str
) -> None:
    """Also if the run cannot be stopped."""
    cancelled, said = followed(tmp_path, monkeypatch, **how)

    assert cancelled == 1
    assert says in said


@pytest.mark.parametrize(("free", "says"), [(0, "no space left on"), (2**40, "supervisor.log")])
def test_a_run_ends_with_its_bench(
    free: int, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every wait of its tasks would last to its limit; the message says why the bench ended."""
    monkeypatch.setattr("lagbench.embedded.broker.free_disk_bytes", lambda _: free)
    cancelled, said = followed(tmp_path, monkeypatch)

    assert cancelled == 1
    assert says in said
