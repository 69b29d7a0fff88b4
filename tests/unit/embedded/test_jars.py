"""Jars are fetched once, checked, and never used half."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from lagbench.adapters.runs.run_folder import LANDED_TABLES, RunFolder
from lagbench.adapters.runs.topic_copies import keep_evidence
from lagbench.catalog.catalog import load_policy
from lagbench.cli import main
from lagbench.embedded import local_accounting
from lagbench.embedded.doctor import require_prometheus
from lagbench.embedded.jars import (
    BROKER,
    SPARK,
    JarSet,
    LockedJar,
    is_cached,
    jar_paths,
    read_lock,
    write_lock,
)
from lagbench.embedded.spark_packages import write_code_zip
from lagbench.errors import ExitCode, NotReady, WrongInput


class FakeRepository:
    """Delivers every jar with the same content, and counts how often it was asked."""

    def __init__(self, content: bytes = b"class files") -> None:
        """Deliver ``content``."""
        self.content = content
        self.asked = 0

    def __call__(self, jars: Sequence[LockedJar], folder: Path) -> None:
        """Write the jars into ``folder``."""
        self.asked += 1
        for jar in jars:
            (folder / jar.file_name).write_bytes(self.content)


@pytest.fixture
def jar_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> JarSet:
    """Give a set of two jars in an empty cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    digest = hashlib.sha256(b"class files").hexdigest()
    lock = tmp_path / "some.lock"
    write_lock(lock, [LockedJar("org.b", "two", "2.0", digest), LockedJar("a", "one", "1", digest)])
    return JarSet("some", "1", lock)


def test_second_use_fetches_nothing(jar_set: JarSet) -> None:
    """The cache is filled once."""
    repository = FakeRepository()

    first = jar_paths(jar_set, fetch=repository)
    second = jar_paths(jar_set, fetch=repository)

    assert first == second
    assert [path.name for path in first] == ["one-1.jar", "two-2.0.jar"]
    assert all(path.is_file() for path in first)
    assert repository.asked == 1


@pytest.mark.parametrize(
    ("content", "delivered", "named"), [(b"other", 2, "a:one:1"), (b"class files", 1, "org.b:two")]
)
def test_a_jar_that_is_wrong_or_missing_is_refused(
    jar_set: JarSet, content: bytes, delivered: int, named: str
) -> None:
    """It is named, and nothing of the download stays."""

    def deliver(jars: Sequence[LockedJar], folder: Path) -> None:
        FakeRepository(content)(jars[:delivered], folder)

    with pytest.raises(NotReady, match=named):
        jar_paths(jar_set, fetch=deliver)

    assert not is_cached(jar_set)
    assert not jar_set.folder.exists()
    assert [p for p in jar_set.folder.parent.iterdir() if p.is_dir()] == []


def test_a_changed_lock_or_a_deleted_jar_fetches_anew(jar_set: JarSet) -> None:
    """What was verified against another lock file does not count, nor a cache with a hole.

    A half download of a killed process is neither used nor kept.
    """
    repository = FakeRepository()
    half = jar_set.folder.parent / ".some-1-part-x"
    half.mkdir(parents=True)
    jar_paths(jar_set, fetch=repository)[0].unlink()
    assert not half.exists()
    assert jar_paths(jar_set, fetch=repository)[0].is_file()
    write_lock(jar_set.lock_path, read_lock(jar_set.lock_path)[:1])

    paths = jar_paths(jar_set, fetch=repository)

    assert [path.name for path in paths] == ["one-1.jar"]
    assert repository.asked == 3


def test_concurrent_callers_fetch_once(jar_set: JarSet) -> None:
    """Callers at the same moment wait for one download."""
    repository = FakeRepository()
    callers = [
        threading.Thread(target=jar_paths, args=(jar_set,), kwargs={"fetch": repository})
        for _ in range(4)
    ]

    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join(timeout=20)

    assert repository.asked == 1
    assert is_cached(jar_set)


@pytest.mark.parametrize("line", ["abc  org:module:1", f"{'0' * 64}  org:module", "nonsense"])
def test_damaged_lock_line_is_named(tmp_path: Path, line: str) -> None:
    """A line that is no entry is wrong input with its number."""
    lock = tmp_path / "x.lock"
    lock.write_text(f"{'0' * 64}  a:b:1\n{line}\n")

    with pytest.raises(WrongInput, match="line 2"):
        read_lock(lock)


@pytest.mark.parametrize("committed", [BROKER, SPARK])
def test_committed_locks_are_complete(committed: JarSet) -> None:
    """Every committed jar has a hash, a unique file name, and the set's version occurs."""
    jars = read_lock(committed.lock_path)

    assert all(set(jar.sha256) - {"0"} for jar in jars)
    assert len({jar.file_name for jar in jars}) == len(jars)
    assert committed.version in {jar.version for jar in jars}


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


@pytest.mark.parametrize(
    ("tables", "copies", "arguments"),
    [
        # Kafka is not asked when every table is whole.
        (3, 0, ("--landed",)),
        # One table never landed: the copies of the topics are read, and not made twice.
        (2, 3, ()),
        # A topic is missing and no bench has it.
        (0, 1, None),
    ],
)
def test_the_source_of_an_accounting_is_what_is_left(
    folder: RunFolder, tables: int, copies: int, arguments: tuple[str, ...] | None
) -> None:
    """The teardown copies nothing that is there already; a run without a fence has no source."""
    for kind in LANDED_TABLES[:tables]:
        folder.table(kind).mkdir(parents=True)
        (folder.table(kind) / "_SUCCESS").touch()
    for kind in LANDED_TABLES[:copies]:
        folder.copy(kind).mkdir(parents=True)

    if arguments is None:
        with pytest.raises(NotReady, match="run-1"):
            local_accounting._source(folder, None)
    else:
        assert local_accounting._source(folder, None)[1] == arguments
        assert keep_evidence(lambda: pytest.fail("nobody needs Kafka"), folder) == []
    folder.fence.unlink()
    with pytest.raises(NotReady):
        local_accounting._source(folder, None)


@pytest.fixture
def without_program(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Provide a machine with no program, and an empty state folder."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("LAGBENCH_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("LAGBENCH_RUNS_DIR", str(tmp_path / "runs"))
    return tmp_path


@pytest.mark.usefixtures("without_program")
def test_the_package_is_named() -> None:
    """Only a policy that asks Prometheus needs it."""
    require_prometheus(load_policy("lag-quick").manifest, where="lag-quick")

    with pytest.raises(NotReady, match=r"apt-get install .*prometheus"):
        require_prometheus(load_policy("prometheus-lag").manifest, where="prometheus-lag")


def test_a_run_is_rejected_before_anything_starts(
    without_program: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 3, one message, and neither a bench nor a run folder."""
    command = ["lagbench", "run", "quick_spike", "--policy", "prometheus-lag"]
    monkeypatch.setattr(sys, "argv", command)

    with pytest.raises(SystemExit) as ended:
        main()

    assert ended.value.code == ExitCode.NOT_READY
    assert "prometheus-lag" in capsys.readouterr().err
    assert list(without_program.iterdir()) == []
