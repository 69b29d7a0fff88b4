"""Jars are fetched once, checked, and never used half."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

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
from lagbench.errors import NotReady, WrongInput


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


def test_wrong_hash_is_refused(jar_set: JarSet) -> None:
    """A jar with another content is named, and nothing of the download stays."""
    with pytest.raises(NotReady, match="a:one:1"):
        jar_paths(jar_set, fetch=FakeRepository(b"something else"))

    assert not is_cached(jar_set)
    assert not jar_set.folder.exists()
    assert [p for p in jar_set.folder.parent.iterdir() if p.is_dir()] == []


def test_missing_jar_is_refused(jar_set: JarSet) -> None:
    """A set that lacks a jar is not used."""

    def deliver_one(jars: Sequence[LockedJar], folder: Path) -> None:
        FakeRepository()(jars[:1], folder)

    with pytest.raises(NotReady, match=r"org\.b:two:2\.0"):
        jar_paths(jar_set, fetch=deliver_one)


def test_changed_lock_fetches_anew(jar_set: JarSet) -> None:
    """What was verified against another lock file does not count."""
    repository = FakeRepository()
    jar_paths(jar_set, fetch=repository)
    write_lock(jar_set.lock_path, read_lock(jar_set.lock_path)[:1])

    paths = jar_paths(jar_set, fetch=repository)

    assert [path.name for path in paths] == ["one-1.jar"]
    assert repository.asked == 2


def test_deleted_jar_is_fetched_anew(jar_set: JarSet) -> None:
    """A cache from which a file was removed is filled again."""
    repository = FakeRepository()
    jar_paths(jar_set, fetch=repository)[0].unlink()

    assert jar_paths(jar_set, fetch=repository)[0].is_file()


def test_left_over_of_a_killed_fetch_is_removed(jar_set: JarSet) -> None:
    """A half download of a killed process is neither used nor kept."""
    half = jar_set.folder.parent / ".some-1-part-x"
    half.mkdir(parents=True)
    (half / "one-1.jar").write_bytes(b"cla")

    jar_paths(jar_set, fetch=FakeRepository())

    assert not half.exists()


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
