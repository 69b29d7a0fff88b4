"""The options of a Spark driver here: which job records the archive of classes, which maps it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from lagbench.embedded.driver_options import archive_path, compiler_options, driver_options
from lagbench.embedded.java import JavaRuntime
from lagbench.errors import NotReady

JAVA = JavaRuntime(Path("/jdk/bin/java"), Path("/jdk"), "17.0.1", "system")
NEWER = JavaRuntime(Path("/jdk/bin/java"), Path("/jdk"), "21.0.1", "system")
FEW, MANY = 10_000, 20_000_000


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Provide a Python environment of its own, with a blank in its path."""
    prefix = tmp_path / "an environment"
    prefix.mkdir()
    monkeypatch.setattr(sys, "prefix", str(prefix))
    return prefix


def record(*, fails: bool = False) -> str:
    """Return the options of a second job that leaves an archive as the JVM does at its end.

    :raises NotReady: it ``fails`` afterwards.
    """
    with driver_options(JAVA, messages=FEW) as options:
        assert "Archive" not in options
    with driver_options(JAVA, messages=FEW) as options:
        Path(options.split("-XX:ArchiveClassesAtExit=")[1].rstrip("'")).write_bytes(b"classes")
        assert not archive_path(JAVA).exists()
        if fails:
            raise NotReady("Spark failed")
    return options


def test_the_second_job_records_and_the_next_maps() -> None:
    """Only what a job left at its end is mapped."""
    assert "ArchiveClassesAtExit" in record()
    assert archive_path(JAVA).read_bytes() == b"classes"
    with driver_options(JAVA, messages=FEW) as options:
        assert f"'-XX:SharedArchiveFile={archive_path(JAVA)}'" in options


def test_a_job_that_fails_leaves_no_archive() -> None:
    """What a JVM wrote on its way down is not trusted."""
    with pytest.raises(NotReady):
        record(fails=True)

    assert not archive_path(JAVA).exists()
    assert list(archive_path(JAVA).parent.glob("*.jsa")) == []


def test_another_java_has_another_archive() -> None:
    """A JVM maps only what its own version has recorded."""
    record()

    with driver_options(NEWER, messages=FEW) as options:
        assert "SharedArchiveFile" not in options


def test_an_environment_that_cannot_be_written_is_no_error(environment: Path) -> None:
    """The folder's place is taken by a file: the job runs without an archive."""
    (environment / "var").write_text("")

    with driver_options(JAVA, messages=MANY) as options:
        assert "Archive" not in options
        assert "-XX:TieredStopAtLevel" not in options


def test_only_a_short_job_has_no_optimiser() -> None:
    """A long job optimises late, a short one never; both use all cores to collect garbage."""
    for messages, is_short in ((FEW, True), (MANY, False)):
        with driver_options(JAVA, messages=messages) as options:
            assert ("-XX:TieredStopAtLevel=1" in options) is is_short
            assert ("-XX:Tier4InvocationThreshold" in options) is not is_short
            assert "-XX:+UseParallelGC" in options
    assert compiler_options(MANY) == ""
