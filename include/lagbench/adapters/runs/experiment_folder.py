"""The folder of one execution of an experiment; it keeps what its runs measured.

Housekeeping may delete the run folders: measures, verdict, manifest, scenario and prediction of
each group of every run are copied here when the run has ended. ``record.json`` is written last, so
a run is recorded wholly or not at all.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from lagbench.adapters.runs.run_folder import RunFolder, runs_root

EXPERIMENTS_FOLDER = "_experiments"
"""In the runs folder; no run id begins with an underscore."""
RECORD_FILE = "record.json"


@dataclass(frozen=True, slots=True)
class ExperimentFolder:
    """The files of one execution below ``path``."""

    path: Path

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
    def experiment(self) -> Path:
        """The experiment as it was when the execution started."""
        return self.path / "experiment.json"

    @property
    def execution(self) -> Path:
        """Start, target and drawn order."""
        return self.path / "execution.json"

    @property
    def result(self) -> Path:
        """The result as data."""
        return self.path / "result.json"

    @property
    def page(self) -> Path:
        """The result for a human."""
        return self.path / "result.md"

    @property
    def figure(self) -> Path:
        """The picture on that page; absent where no run has a value."""
        return self.path / "result.svg"

    @property
    def files(self) -> RunFolder:
        """Return reader and writer of the folder's own files."""
        return RunFolder(self.path)

    def runs(self) -> list[RunFolder]:
        """Return the kept runs that are recorded."""
        folders = sorted((self.path / "runs").glob(f"*/{RECORD_FILE}"))
        return [RunFolder(record.parent) for record in folders]

    def keep(self, run: RunFolder, record: dict[str, Any]) -> None:
        """Copy what the result needs of a run that has ended, then its record.

        :raises NotReady: the run lacks one of the files.
        """
        kept = RunFolder(self.path / "runs" / run.run_id)
        for group in run.groups:
            place = group.path.relative_to(run.path)
            for file in (group.measures, group.verdict, group.manifest, group.scenario):
                kept.write_text(place / file.name, group.read_text(file))
            if group.prediction.exists():
                kept.write_text(place / group.prediction.name, group.read_text(group.prediction))
        kept.write_json(RECORD_FILE, record)


def executions(experiment: str, root: Path | None = None) -> list[ExperimentFolder]:
    """Return the executions of an experiment, oldest first."""
    folder = _root(root) / experiment
    if not folder.is_dir():
        return []
    return [ExperimentFolder(path.parent) for path in sorted(folder.glob("*/execution.json"))]


def _root(root: Path | None) -> Path:
    return (root or runs_root()) / EXPERIMENTS_FOLDER
