"""The code that goes along to executors."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from lagbench.adapters.runs.run_folder import LANDED_TABLES, RunFolder
from lagbench.adapters.runs.topic_copies import keep_evidence
from lagbench.embedded import local_accounting
from lagbench.embedded.spark_packages import write_code_zip
from lagbench.errors import NotReady


def test_the_zip_is_all_that_a_strange_python_needs(tmp_path: Path) -> None:
    """With the zip alone, every module of the jobs is found, for a driver too."""
    path = write_code_zip(tmp_path)
    libraries = str(Path(np.__file__).parents[1])
    code = (
        "import lagbench_spark.accounting, lagbench_spark.landing; "
        "import lagbench_spark.decode as rows; "
        "import lagbench.shared_with_spark.event as event; "
        "import lagbench.shared_with_spark.message_classes; "
        "print(rows.__file__, event.__file__)"
    )

    # -S: no .pth is read, so the editable installation of this project is not seen.
    done = subprocess.run(
        [sys.executable, "-S", "-c", code],
        env={"PYTHONPATH": f"{path}:{libraries}"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )

    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [
        f"{path}/lagbench_spark/decode.py",
        f"{path}/lagbench/shared_with_spark/event.py",
    ]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunFolder:
    """Provide the folder of a fenced run; no bench is up."""
    made = RunFolder.create("run-1", tmp_path)
    made.write_json(made.fence, {"events": {}, "processed": {}, "telemetry": {}, "committed": {}})
    monkeypatch.setattr(local_accounting.bench, "running", lambda _: None)
    return made


def landed(folder: RunFolder, *names: str) -> None:
    """Land tables as Spark does."""
    for name in names:
        folder.table(name).mkdir(parents=True)
        (folder.table(name) / "_SUCCESS").touch()


def test_landed_tables_are_enough(folder: RunFolder) -> None:
    """Kafka is not asked when every table is whole, and the teardown copies nothing."""
    landed(folder, *LANDED_TABLES)

    assert local_accounting._source(folder, None)[1] == ("--landed",)
    assert keep_evidence(lambda: pytest.fail("nobody needs Kafka"), folder) == []


def test_copies_stand_in_for_topics(folder: RunFolder) -> None:
    """One table never landed: the copies of the topics are read, and not made twice."""
    landed(folder, *LANDED_TABLES[:2])
    for kind in LANDED_TABLES:
        folder.copy(kind).mkdir(parents=True)

    assert local_accounting._source(folder, None)[1] == ()
    assert keep_evidence(lambda: pytest.fail("nobody needs Kafka"), folder) == []


def test_a_part_of_the_copies_is_not_enough(folder: RunFolder) -> None:
    """A topic is missing and no bench has it: the run is named."""
    folder.copy("events").mkdir(parents=True)

    with pytest.raises(NotReady, match="run-1"):
        local_accounting._source(folder, None)


def test_a_run_without_a_fence_cannot_be_accounted_for(folder: RunFolder) -> None:
    """Where it ended was never fixed."""
    folder.fence.unlink()

    with pytest.raises(NotReady):
        local_accounting._source(folder, None)
