"""The folder of one execution of an experiment; it keeps what its runs measured.

Housekeeping may delete the run folders: what the result needs of every run is copied to
``runs.jsonl.gz`` when the run has ended, a line for each run (``kept_run``). The file is replaced
atomically, so a run is kept wholly or not at all, and a crash loses none of those before it.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from shutil import rmtree
from tempfile import TemporaryDirectory
from typing import Any

from lagbench.adapters.runs.run_folder import (
    SECOND_GROUP,
    FolderFile,
    RunFolder,
    list_runs,
    runs_root,
)
from lagbench.core.scenario.run_names import RunNames
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
        # Sorted and without a time: the same runs give the same bytes.
        lines = "".join(runs[run_id].line for run_id in sorted(runs))
        self.files.write_bytes(self.kept, gzip.compress(lines.encode(), mtime=0))


def read_runs(path: Path) -> list[KeptRun]:
    """Return the runs of a ``runs.jsonl.gz``."""
    try:
        with gzip.open(path, "rt", encoding="utf-8") as file:
            return [KeptRun.read(line) for line in file]
    except (OSError, EOFError, zlib.error, ValueError) as broken:
        raise WrongInput(
            where="kept runs", field="file", value=path, allowed=f"a {RUNS_FILE} ({broken})"
        ) from broken


def executions(experiment: str, root: Path | None = None) -> list[ExperimentFolder]:
    """Return the executions of an experiment, oldest first."""
    folder = _root(root) / experiment
    if not folder.is_dir():
        return []
    return [ExperimentFolder(path.parent) for path in sorted(folder.glob("*/execution.json"))]


def _root(root: Path | None) -> Path:
    return (root or runs_root()) / EXPERIMENTS_FOLDER


@dataclass(frozen=True, slots=True)
class KeptRun:
    """A kept run; ``files`` are those of its first group, without their suffixes."""

    run_id: str
    record: Mapping[str, Any] | None  # None: no execution of an experiment made the run
    files: Mapping[str, Any]
    second: Mapping[str, Any] | None  # the files of the second group

    @classmethod
    def of(cls, run: RunFolder, record: Mapping[str, Any]) -> KeptRun:
        """Return what is kept of a run that has ended.

        :raises NotReady: it lacks a file that every such run has.
        """
        second = None if run.second is None else _packed(run.second)
        return cls(run.run_id, record, _packed(run), second)

    @classmethod
    def read(cls, line: str) -> KeptRun:
        """Return the run of a line.

        :raises WrongInput: no run can have its id.
        """
        content = json.loads(line, parse_constant=_refuse)
        if not isinstance(content, dict) or not isinstance(content.get("run_id"), str):
            raise ValueError("the line has no run_id")  # noqa: TRY004 - as broken JSON is
        run_id = RunNames(content.pop("run_id")).run_id
        _check(content)
        record, second = content.pop("record", None), content.pop(SECOND_GROUP, None)
        _check(second or {})
        return cls(run_id, record, content, second)

    @property
    def line(self) -> str:
        """The run as a line."""
        content: dict[str, Any] = {"run_id": self.run_id}
        if self.record is not None:
            content["record"] = self.record
        content |= self.files
        if self.second is not None:
            content[SECOND_GROUP] = self.second
        return json.dumps(content, ensure_ascii=False, allow_nan=False) + "\n"

    def unpack(self, root: Path) -> RunFolder:
        """Write the kept files as a run folder in ``root``."""
        folder = RunFolder.create(self.run_id, root)
        _unpack(folder, self.files)
        if self.second is not None:
            _unpack(folder.make_second(), self.second)
        return folder

    @contextmanager
    def unpacked(self) -> Iterator[RunFolder]:
        """Give the run as a folder for the time of the context."""
        with TemporaryDirectory(prefix="lagbench-") as root:
            yield self.unpack(Path(root))


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


def _check(files: Mapping[str, Any]) -> None:
    """Raise unless files of YAML are texts and all others objects."""
    for name, content in files.items():
        if not isinstance(content, str if name in ("scenario", "policy") else dict):
            raise ValueError(f"{name} has another shape")  # noqa: TRY004 - as broken JSON is


def _files(group: RunFolder) -> tuple[Path, ...]:
    return (
        group.manifest,
        group.scenario,
        group.policy,
        group.prediction,
        group.accounting,
        group.verdict,
        group.measures,
    )


def _packed(group: RunFolder) -> dict[str, Any]:
    optional = (group.policy, group.prediction, group.accounting)
    return {
        path.stem: group.read_text(path) if path.suffix == ".yaml" else group.read_json(path)
        for path in _files(group)
        if path not in optional or path.exists()
    }


def _unpack(group: RunFolder, files: Mapping[str, Any]) -> None:
    for path in _files(group):
        if path.stem in files:
            write = group.write_text if path.suffix == ".yaml" else group.write_json
            write(path, files[path.stem])


KEPT_MARK = "#"
"""Between the file of kept runs and the run; no run id has one."""
KEPT_FOLDER = "_kept"
"""In the runs folder: the kept runs of which a report was made."""


def is_kept(name: str) -> bool:
    """Return whether a name is that of a kept run."""
    return KEPT_MARK in name


@contextmanager
def opened(name: str, *, kept_in: Path | None = None) -> Iterator[RunFolder]:
    """Give the folder of the run that is named so: as ``find``, or FILE#RUN.

    A kept run is unpacked into ``kept_in``; without it, for the time of the context.

    :raises WrongInput: no run or more than one fits; the message lists candidates.
    """
    file, mark, run = name.rpartition(KEPT_MARK)
    if not mark:
        yield find(name)
        return
    prefix, _, group = run.partition("/")
    runs = {kept.run_id: kept for kept in read_runs(Path(file))}
    kept = runs[_only(prefix, list(runs), name)]
    with TemporaryDirectory(prefix="lagbench-") as temporary:
        root = kept_in or Path(temporary)
        rmtree(root / kept.run_id, ignore_errors=True)  # a run of that name from another file
        yield _group(kept.unpack(root), group, name)


def find(run_or_prefix: str, root: Path | None = None) -> RunFolder:
    """Return the run with this id, or the only one whose id starts so; ``latest`` is the newest.

    ``/second_group`` after it is the folder of its second group.

    :raises WrongInput: no run or more than one fits; the message lists candidates.
    """
    root = root or runs_root()
    run, _, group = run_or_prefix.partition("/")
    names = [summary.run_id for summary in list_runs(root)]
    prefix = names[-1] if run == "latest" and names else run
    return _group(RunFolder(root / _only(prefix, names, run_or_prefix)), group, run_or_prefix)


def _only(prefix: str, names: Sequence[str], asked: str) -> str:
    """Return the only one of the names that is, or begins with, the prefix."""
    if prefix in names:
        return prefix
    fitting = [name for name in names if prefix and name.startswith(prefix)]
    if len(fitting) == 1:
        return fitting[0]
    candidates = fitting or names
    allowed = "one of " + ", ".join(candidates[-10:]) if candidates else "a run; there is none yet"
    raise WrongInput(where="run", field="run", value=asked, allowed=allowed)


def _group(folder: RunFolder, group: str, asked: str) -> RunFolder:
    """Return the folder of a run's group; without a name, its first."""
    if not group:
        return folder
    if group != SECOND_GROUP or folder.second is None:
        allowed = "a run with a second group"
        raise WrongInput(where="run", field="run", value=asked, allowed=allowed)
    return folder.second
