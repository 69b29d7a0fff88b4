"""Runs the ``lagbench`` command as a user does, in a home of its own, and looks at what is left."""

from __future__ import annotations

import json
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from tests.fakes.user_environment import user_environment

DATA = Path(__file__).resolve().parents[1] / "data"
SCENARIO = DATA / "scenarios" / "tiny_spike.yaml"
POLICY = DATA / "policies" / "lag-tiny.yaml"
SPARK_SCENARIO = DATA / "scenarios" / "tiny_spark.yaml"
SPARK_POLICY = DATA / "policies" / "lag-tiny-spark.yaml"
RUN_LIMIT_SECONDS = 1500
DOWN_LIMIT_SECONDS = 300  # the product itself gives the bench 75 s


@dataclass
class Rehearsal:
    """One ``lagbench`` home: state and run folders below ``root``."""

    root: Path
    variables: dict[str, str] = field(default_factory=dict)
    """Of every command, beside those of the home."""
    _started: list[subprocess.Popen[str]] = field(default_factory=list)
    _earlier_runs: set[Path] = field(default_factory=set)

    @property
    def environment(self) -> dict[str, str]:
        """Return the environment that makes every command use this home."""
        return {
            **user_environment(),
            "LAGBENCH_STATE_DIR": str(self.root / "state"),
            "LAGBENCH_RUNS_DIR": str(self.root / "runs"),
            "COLUMNS": "140",
            **self.variables,
        }

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """Start ``lagbench`` with ``arguments``; its output goes to a file."""
        with (self.root / "output.txt").open("w") as output:
            command = [str(Path(sys.executable).parent / "lagbench"), *arguments]
            process = subprocess.Popen(
                command,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                text=True,
            )
        self._started.append(process)
        return process

    def start_run(
        self, *settings: str, options: tuple[str, ...] = (), is_on_spark: bool = False
    ) -> subprocess.Popen[str]:
        """Start the tiny rehearsal, or the one on Spark, with further ``key=value`` settings."""
        files = (SPARK_SCENARIO, SPARK_POLICY) if is_on_spark else (SCENARIO, POLICY)
        return self.start_files(*files, *settings, options=options)

    def start_files(
        self, scenario: Path, policy: Path, *settings: str, options: tuple[str, ...] = ()
    ) -> subprocess.Popen[str]:
        """Start the rehearsal of two files, with further ``key=value`` settings."""
        for process in self._started:  # what a failed test has left
            if process.poll() is None:
                process.send_signal(signal.SIGINT)
                process.wait(timeout=DOWN_LIMIT_SECONDS)
        self._earlier_runs = set(self._runs())
        flags = [flag for setting in settings for flag in ("--set", setting)]
        return self.start("run", str(scenario), "--policy", str(policy), *flags, *options)

    def finish(self, process: subprocess.Popen[str]) -> int:
        """Wait for the end and return the exit code."""
        return process.wait(timeout=RUN_LIMIT_SECONDS)

    @property
    def unfailed(self) -> str:
        """Return the status of an SLO that did not fail: the machine may leave it undetermined."""
        return "undetermined" if self.read("verdict.json")["invalid"] else "pass"

    def output(self) -> str:
        """Return what the last command printed."""
        return (self.root / "output.txt").read_text()

    def folder(self) -> Path:
        """Return the folder of the run that was started last, once it is there."""
        wait_until(
            lambda: bool(self._new_runs()) or self._ended(), "a new run folder", limit_seconds=900
        )
        found = self._new_runs()
        assert found, f"the command ended before it made a run folder:\n{self.output()}"
        return found[-1]

    def _ended(self) -> bool:
        """Whether the last command has ended: it makes nothing any more."""
        return bool(self._started) and self._started[-1].poll() is not None

    def _runs(self) -> list[Path]:
        """Return all run folders, oldest first: their names end in the time."""
        folder = self.root / "runs"
        return sorted(filter(Path.is_dir, folder.iterdir())) if folder.exists() else []

    def _new_runs(self) -> list[Path]:
        return [run for run in self._runs() if run not in self._earlier_runs]

    def read(self, name: str) -> Any:
        """Return a JSON file of the newest run."""
        return json.loads((self.folder() / name).read_text())

    def slo(self, name: str) -> dict[str, Any]:
        """Return one SLO's result of the newest run."""
        found: dict[str, Any] = next(
            slo for slo in self.read("verdict.json")["slos"] if slo["name"] == name
        )
        return found

    def wait_for_phase(
        self, name: str, state: str = "started", *, limit_seconds: float = 900
    ) -> None:
        """Wait until the newest run's phase ``name`` has begun (or ended)."""

        def is_there() -> bool:
            ended = self._ended()  # asked first: its last words count
            log = self.folder() / "phases.jsonl"
            lines = log.read_text().splitlines() if log.exists() else []
            entries = [json.loads(line) for line in lines]
            if any(e["name"] == name and e["state"] == state for e in entries):
                return True
            assert not ended, f"the command ended before phase {name}:\n{self.output()}"
            return False

        wait_until(is_there, f"phase {name} {state}", limit_seconds=limit_seconds)

    def processes(self, part: str = "") -> list[psutil.Process]:
        """Return the processes of this home whose command line holds ``part``.

        That of the warm interpreter names the modules that it has loaded: ask for ``-m module``.
        """
        state = str(self.root / "state")
        found = []
        for process in psutil.process_iter():
            try:
                belongs = state in process.environ().get("LAGBENCH_STATE_DIR", "")
                if belongs and part in " ".join(process.cmdline()):
                    found.append(process)
            except (psutil.NoSuchProcess, psutil.AccessDenied):
                continue
        return found

    def bench(self) -> dict[str, Any]:
        """Return the running bench's state."""
        state: dict[str, Any] = json.loads((self.root / "state" / "bench.json").read_text())
        return state

    def dag_run_states(self) -> list[str]:
        """Return the states of all Dag runs in this home's history, oldest first."""
        with sqlite3.connect(self.root / "state" / "airflow" / "airflow.db") as database:
            rows = database.execute("SELECT state FROM dag_run ORDER BY id")
            return [state for (state,) in rows]

    def close(self) -> None:
        """End whatever a failed test left, by pid."""
        for process in self._started:
            if process.poll() is None:
                process.kill()
                process.wait(timeout=60)
        for process in self.processes():
            process.kill()


def wait_until(condition: Callable[[], bool], what: str, *, limit_seconds: float) -> None:
    """Wait for a condition; raise with ``what`` when it does not come true in time."""
    pause, give_up_at = threading.Event(), time.monotonic() + limit_seconds
    while not condition():
        if time.monotonic() > give_up_at:
            raise TimeoutError(f"not seen within {limit_seconds} s: {what}")
        pause.wait(0.2)
