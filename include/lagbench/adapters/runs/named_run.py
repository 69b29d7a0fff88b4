"""The run that a command names: one of the runs folder, or one that an experiment kept."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from shutil import rmtree
from tempfile import TemporaryDirectory

from lagbench.adapters.runs.experiment_folder import read_runs
from lagbench.adapters.runs.run_folder import SECOND_GROUP, RunFolder, list_runs, runs_root
from lagbench.errors import WrongInput

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
