"""Speed up a Spark job's JVM: its collector, the first-tier compiler, an archive of its classes.

A short job spends a third of its time on loading classes (class data sharing, JEP 350). The second
pipeline of an installation writes an archive of them into the Python environment that has the jars.
Later jobs map it. The first does not wait for it: recording takes longer than a few jobs save, and
a new user waits for that one. The JVM compares an archive with itself and with every
jar, and ignores an archive that differs.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from lagbench.embedded.java import JavaRuntime

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
