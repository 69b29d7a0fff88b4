"""Executors that do and do not share the driver's disk, without Spark."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lagbench_spark.errors import UnreadableRun
from lagbench_spark.executors import require_shared


@dataclass
class FakeContext:
    """Runs tasks here."""

    master: str = "spark://master:7077"
    defaultParallelism: int = 2  # noqa: N815 - Spark's name
    tasks: int = 0

    def parallelize(self, values: range, slices: int) -> Any:
        """Return something that maps partitions."""
        self.tasks = slices

        def partitions(work: Callable[[Iterator[int]], Iterator[str]]) -> Any:
            found = [host for value in values for host in work(iter([value]))]
            return SimpleNamespace(collect=lambda: found)

        return SimpleNamespace(mapPartitions=partitions)


@dataclass
class FakeFolder:
    """Writes below ``disk``, which is the folder's location only if the disk is shared."""

    location: str
    disk: Path
    context: FakeContext = field(default_factory=FakeContext)

    @property
    def session(self) -> Any:
        """The session."""
        return SimpleNamespace(sparkContext=self.context)

    def write_json(self, name: str, content: dict[str, Any]) -> None:
        """Write as the driver."""
        (self.disk / name).write_text(json.dumps(content))

    def remove(self, name: str) -> None:
        """Remove as the driver."""
        (self.disk / name).unlink(missing_ok=True)


@pytest.mark.parametrize("scheme", ["", "file://"])
def test_a_shared_folder_passes_and_stays_clean(tmp_path: Path, scheme: str) -> None:
    """Every core is asked twice, and no file stays."""
    folder: Any = FakeFolder(f"{scheme}{tmp_path}", tmp_path)

    require_shared(folder)

    assert folder.context.tasks == 4
    assert list(tmp_path.iterdir()) == []


def test_executors_with_a_disk_of_their_own_are_refused(tmp_path: Path) -> None:
    """The message has their host and the folder; no file stays."""
    there, here = tmp_path / "there", tmp_path / "here"
    there.mkdir()
    here.mkdir()
    folder: Any = FakeFolder(f"file://{there}", here)

    with pytest.raises(UnreadableRun, match=f"file://{there}"):
        require_shared(folder)

    assert list(here.iterdir()) == []


@pytest.mark.parametrize(
    ("location", "master"),
    [("s3a://bucket/run", "spark://master:7077"), ("/runs/run", "local[2]")],
)
def test_stores_and_one_process_are_not_asked(location: str, master: str, tmp_path: Path) -> None:
    """No job is run for what is shared by its nature."""
    folder: Any = FakeFolder(location, tmp_path, FakeContext(master))

    require_shared(folder)

    assert folder.context.tasks == 0
