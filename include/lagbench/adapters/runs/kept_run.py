"""A run as an experiment keeps it: one line of JSON, without tables and logs.

A field has the name of the run folder's file. A file of YAML is kept as its text, because of its
comments.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from lagbench.adapters.runs.run_folder import SECOND_GROUP, RunFolder
from lagbench.core.scenario.run_names import RunNames


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

        :raises ValueError: the line is not one of a kept run.
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
