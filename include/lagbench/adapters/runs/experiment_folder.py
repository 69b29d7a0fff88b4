"""The folder of one execution of an experiment; it keeps what its runs measured.

Housekeeping may delete the run folders: what the result needs of every run is copied to
``runs.jsonl.gz`` when the run has ended, a line for each run (``kept_run``). The file is replaced
atomically, so a run is kept wholly or not at all, and a crash loses none of those before it.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from lagbench.adapters.runs.kept_run import KeptRun
from lagbench.adapters.runs.run_folder import FolderFile, RunFolder, runs_root
from lagbench.errors import WrongInput

EXPERIMENTS_FOLDER = "_experiments"
"""In the runs folder; no run id begins with an underscore."""
RUNS_FILE = "runs.jsonl.gz"


@dataclass(frozen=True, slots=True)
class ExperimentFolder:
    """The files of one execution below ``path``."""

    path: Path

    experiment = FolderFile("experiment.json")  # as it was when the execution started
    execution = FolderFile("execution.json")  # start, target and drawn order
    result = FolderFile("result.json")  # the result as data
    page = FolderFile("result.md")  # the result for a human
    figure = FolderFile("result.svg")  # the picture on that page; absent where no run has a value
    kept = FolderFile(RUNS_FILE)

    @classmethod
    def create(
        cls, experiment: str, *, started_at: int, root: Path | None = None
    ) -> ExperimentFolder:
        """Make the folder of an execution, named by its start (unix ns)."""
        start = datetime.fromtimestamp(started_at / 1_000_000_000, UTC)
        path = _root(root) / experiment / f"{start:%Y%m%d-%H%M%S-%f}"
        path.mkdir(parents=True)
        return cls(path)

    @property
    def is_started(self) -> bool:
        """Return whether an execution lies in the folder."""
        return self.execution.exists()

    @property
    def files(self) -> RunFolder:
        """Return reader and writer of the folder's own files."""
        return RunFolder(self.path)

    def runs(self) -> list[KeptRun]:
        """Return the kept runs, sorted by their ids."""
        return read_runs(self.kept) if self.kept.exists() else []

    def keep(self, run: RunFolder, record: Mapping[str, Any]) -> None:
        """Keep what the result needs of a run that has ended, with its record.

        :raises NotReady: the run lacks one of the files.
        """
        runs = {kept.run_id: kept for kept in (*self.runs(), KeptRun.of(run, record))}
        self.files.write_bytes(self.kept, _compressed(runs.values()))


def read_runs(path: Path) -> list[KeptRun]:
    """Return the runs of a ``runs.jsonl.gz``.

    :raises WrongInput: the file is missing, or is not one.
    """
    try:
        with gzip.open(path, "rt", encoding="utf-8") as file:
            return [KeptRun.read(line) for line in file]
    except (OSError, EOFError, zlib.error, ValueError) as broken:
        raise WrongInput(
            where="kept runs", field="file", value=path, allowed=f"a {RUNS_FILE} ({broken})"
        ) from broken


def _compressed(runs: Iterable[KeptRun]) -> bytes:
    """Return the file of these runs; the same runs give the same bytes."""
    lines = [run.line for run in sorted(runs, key=lambda run: run.run_id)]
    return gzip.compress("".join(lines).encode(), mtime=0)


def executions(experiment: str, root: Path | None = None) -> list[ExperimentFolder]:
    """Return the executions of an experiment, oldest first."""
    folder = _root(root) / experiment
    if not folder.is_dir():
        return []
    return [ExperimentFolder(path.parent) for path in sorted(folder.glob("*/execution.json"))]


def _root(root: Path | None) -> Path:
    return (root or runs_root()) / EXPERIMENTS_FOLDER
