"""What a job needs before it begins: its fence, a shared disk, a secret, its code on workers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark import cloudpickle
from tests.unit.spark_jobs.synthetic_run import clean_run, events_of, processed_of

from lagbench.core.ownership.run_facts import facts_of
from lagbench.core.telemetry.records import encode_record
from lagbench.shared_with_spark.spark_job import AUTHENTICATED
from lagbench_spark import session
from lagbench_spark.judge import judge
from lagbench_spark.messages import Rules
from lagbench_spark.run_folder import Fence, UnreadableRun, parse_fence
from lagbench_spark.session import authentication, require_shared
from pipeline import await_fence

GIVEN = {"_SPARK_AUTH_SECRET": "of-the-cluster"}


@pytest.mark.parametrize(
    ("master", "environment", "settings"),
    [
        ("local[2]", {}, AUTHENTICATED),
        ("k8s://https://10.0.0.1:443", {}, AUTHENTICATED),
        ("spark://m:7077", GIVEN, {**AUTHENTICATED, "spark.authenticate.secret": "of-the-cluster"}),
        # Its master may take drivers without one, and these have nothing to show it.
        ("spark://m:7077", {}, {}),
    ],
)
def test_only_a_cluster_of_others_goes_without_a_secret(
    master: str, environment: dict[str, str], settings: dict[str, str]
) -> None:
    """In one process and on Kubernetes Spark draws it; a standalone cluster's is given."""
    assert authentication(master, environment) == settings


def test_a_worker_needs_numpy_and_arrow_alone() -> None:
    """All that judges a partition goes along by value: no module of ours, and no msgspec."""
    run = clean_run(count=300)
    facts = facts_of([encode_record(record).decode() for record in run.telemetry])
    fence = Fence(run.end_offsets(), {}, {}, run.committed, None)
    step = partial(judge, Rules(fence, facts, None), 0, events_of(run), processed_of(run))
    session.ship_by_value()
    worker = (
        "import pickle, sys; sys.modules |= dict.fromkeys(['msgspec', 'lagbench_spark',"
        " 'lagbench.core']); sys.stdout.buffer.write(pickle.loads(sys.stdin.buffer.read())())"
    )

    command, shipped = [sys.executable, "-c", worker], cloudpickle.dumps(step)
    done = subprocess.run(command, input=shipped, capture_output=True, check=False)

    assert done.returncode == 0, done.stderr.decode()
    assert len(done.stdout) > 100


PARTS: dict[str, Any] = {"processed": {"0": 2}, "telemetry": {"0": 9}}


def test_a_fence_has_numbers_and_a_garbled_one_is_refused() -> None:
    """Keys and offsets are read as numbers, an absent commit stays None."""
    committed = {"0": 10, "1": None}
    fence = parse_fence({**PARTS, "events": {"0": 10, "1": 5}, "committed": committed})

    assert (fence.events, fence.messages) == ({0: 10, 1: 5}, 15)
    assert fence.committed == {0: 10, 1: None}
    assert fence.stream_started_at is None
    for events in ({"zero": 1}, {"0": None}, [1], None):
        content = {**PARTS, "committed": {}} | ({} if events is None else {"events": events})
        with pytest.raises(UnreadableRun):
            parse_fence(content)


class LateFence:
    """A run folder that has its fence at the third look."""

    looks = 0

    def has(self, name: str) -> bool:
        """Count the look."""
        self.looks += 1
        return name == "fence.json" and self.looks > 2


def test_a_job_that_was_begun_early_waits_for_the_fence_while_its_run_lives() -> None:
    """It looks again until the file is there; a run that failed before leaves no Spark behind."""
    folder: Any = LateFence()
    await_fence(folder, holder=os.getpid())
    assert folder.looks == 3

    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    never: Any = LateFence()
    with pytest.raises(UnreadableRun):
        await_fence(never, holder=ended.pid)


@dataclass
class FakeFolder:
    """Writes below ``disk``, which is the folder's location only if the disk is shared."""

    location: str
    disk: Path
    master: str = "spark://master:7077"
    tasks: int = 0

    @property
    def session(self) -> Any:
        """A session of two cores that runs its tasks here."""

        def parallelize(values: range, slices: int) -> Any:
            self.tasks = slices

            def partitions(work: Callable[[Iterator[int]], Iterator[str]]) -> Any:
                found = [host for value in values for host in work(iter([value]))]
                return SimpleNamespace(collect=lambda: found)

            return SimpleNamespace(mapPartitions=partitions)

        context = SimpleNamespace(master=self.master, defaultParallelism=2, parallelize=parallelize)
        return SimpleNamespace(sparkContext=context)

    def write_json(self, name: str, content: dict[str, Any]) -> None:
        """Write as the driver."""
        (self.disk / name).write_text(json.dumps(content))

    def remove(self, name: str) -> None:
        """Remove as the driver."""
        (self.disk / name).unlink(missing_ok=True)


@pytest.mark.parametrize(
    ("location", "master", "tasks"),
    [
        ("{}", "spark://master:7077", 4),
        ("file://{}", "spark://master:7077", 4),
        # What is shared by its nature needs no look.
        ("s3a://bucket/run", "spark://master:7077", 0),
        ("{}", "local[2]", 0),
    ],
)
def test_a_shared_folder_passes_and_stays_clean(
    tmp_path: Path, location: str, master: str, tasks: int
) -> None:
    """Every core is asked twice, and no file stays."""
    folder: Any = FakeFolder(location.format(tmp_path), tmp_path, master)

    require_shared(folder)

    assert folder.tasks == tasks
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
