"""Fetch the jars of the broker and of Spark's Kafka connector, once, checked against lock files.

The Ivy inside PySpark downloads them from its default repositories. Each jar is named in a lock
file and fetched without its dependencies: only reviewed jars run, whatever a POM says.

``python -m lagbench.embedded.jars`` fills the cache; ``--write-lock`` fetches the coordinates in
the lock files again and writes their hashes (edit a coordinate first to change a version).
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import importlib.util
import shutil
import ssl
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from xml.sax.saxutils import quoteattr

from lagbench.embedded.java import JavaRuntime, find_java
from lagbench.embedded.kafka_choice import cache_dir, exclusive, write_atomically
from lagbench.errors import LagbenchError, NotReady, WrongInput
from localkube.processes import end_process, start_tied

_PASSWORD = "changeit"  # noqa: S105 - Java's default; the file holds public data only
_HERE = Path(__file__).resolve().parent
_MARKER = "verified"
# Measured: 45 jars in 15 to 54 s. A stuck connection must not block an installation forever.
_FETCH_TIMEOUT_SECONDS = 300.0
_LOG_TAIL_LINES = 12
_SHOWN_FAILURES = 3  # each missing jar adds two lines, mostly of the same cause
_ALLOWED = "64 hex digits, two blanks, organisation:module:version"


@dataclass(frozen=True, slots=True)
class LockedJar:
    """One jar: its coordinate and the hash of its content."""

    organisation: str
    module: str
    version: str
    sha256: str

    @property
    def coordinate(self) -> str:
        """The name in the lock file."""
        return f"{self.organisation}:{self.module}:{self.version}"

    @property
    def file_name(self) -> str:
        """The name in the cache; no two jars of the sets share module and version."""
        return f"{self.module}-{self.version}.jar"


def read_lock(path: Path) -> list[LockedJar]:
    """Return the jars of a lock file, in its order."""
    jars = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        if not line.strip():
            continue
        digest, _, coordinate = line.partition("  ")
        parts = coordinate.split(":")
        if len(digest) != 64 or len(parts) != 3:
            raise WrongInput(where=str(path), field=f"line {number}", value=line, allowed=_ALLOWED)
        organisation, module, version = parts
        jars.append(LockedJar(organisation, module, version, digest))
    return jars


def write_lock(path: Path, jars: list[LockedJar]) -> None:
    """Write a lock file, sorted by coordinate."""
    lines = [
        f"{jar.sha256}  {jar.coordinate}\n" for jar in sorted(jars, key=lambda jar: jar.coordinate)
    ]
    path.write_text("".join(lines), encoding="utf-8")


def file_sha256(path: Path) -> str:
    """Return the SHA-256 of a file in hex."""
    with path.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def verify(folder: Path, jars: list[LockedJar]) -> None:
    """Raise NotReady unless ``folder`` holds every jar with the content that the lock names."""
    for jar in jars:
        path = folder / jar.file_name
        if not path.is_file():
            message = f"the jar {jar.coordinate} is missing after the download to {folder}"
            raise NotReady(f"{message}; try again")
        seen = file_sha256(path)
        if seen != jar.sha256:
            message = (
                f"the jar {jar.coordinate} was rejected: its SHA-256 is {seen}, the lock file has "
                f"{jar.sha256}. Either the download was altered in transit (try again from another "
                "network) or the lock is wrong (python -m lagbench.embedded.jars --write-lock)"
            )
            raise NotReady(message)


@dataclass(frozen=True, slots=True)
class JarSet:
    """Jars that are used together."""

    name: str
    version: str
    lock_path: Path

    @property
    def folder(self) -> Path:
        """The folder of the verified jars."""
        return cache_dir() / "jars" / f"{self.name}-{self.version}"


BROKER = JarSet("broker", "4.4.0", _HERE / "broker-jars.lock")
SPARK = JarSet("spark", "4.2.0", _HERE / "spark-jars.lock")
Fetch = Callable[[Sequence[LockedJar], Path], None]


def jar_paths(jar_set: JarSet, *, fetch: Fetch | None = None) -> list[Path]:
    """Return the jars of a set; fetch and verify them if the cache does not hold them."""
    jars = read_lock(jar_set.lock_path)
    if not is_cached(jar_set):
        lock_path = jar_set.folder.parent / f".{jar_set.folder.name}.lock"
        limit = 2 * _FETCH_TIMEOUT_SECONDS
        with exclusive(lock_path, timeout_seconds=limit, purpose=f"fetch {jar_set.name} jars"):
            if not is_cached(jar_set):  # another process may have filled it meanwhile
                _fill(jar_set, jars, fetch or fetch_with_ivy)
    return [jar_set.folder / jar.file_name for jar in jars]


def is_cached(jar_set: JarSet) -> bool:
    """Return whether the cache holds the set that the lock file currently names."""
    marker = jar_set.folder / _MARKER
    if not marker.is_file():
        return False
    if marker.read_text(encoding="utf-8").strip() != file_sha256(jar_set.lock_path):
        return False
    return all((jar_set.folder / jar.file_name).is_file() for jar in read_lock(jar_set.lock_path))


def fetch_with_ivy(jars: Sequence[LockedJar], folder: Path) -> None:
    """Download ``jars`` into ``folder`` with the Ivy of PySpark.

    A second try uses the other list of authorities: Java's own, or the system's (a company's
    network may use an authority that is on only one of the two lists).
    """
    java = find_java()
    ivy_file = folder / "ivy.xml"
    ivy_file.write_text(_ivy_xml(jars), encoding="utf-8")
    log_path = folder / "ivy.log"
    system_trust = trust_options(folder)
    attempts = [system_trust, []] if java.origin == "wheel" else [[], system_trust]
    for options in attempts:
        if _run_ivy(_ivy_command(java, options, ivy_file, folder), log_path):
            return
    log_lines = log_path.read_text(encoding="utf-8", errors="replace").splitlines()
    failures = [line.strip() for line in log_lines if "access error" in line or "not found" in line]
    tail = failures[-_SHOWN_FAILURES:] or log_lines[-_LOG_TAIL_LINES:]
    message = (
        f"could not download {len(jars)} jars in {len(attempts)} tries (each within "
        f"{_FETCH_TIMEOUT_SECONDS:.0f} s); Ivy's last output:\n  " + "\n  ".join(tail) + "\n"
        "Check the network (Java honours -Dhttps.proxyHost in JAVA_TOOL_OPTIONS), then run "
        "python -m lagbench.embedded.jars"
    )
    raise NotReady(message)


def trust_options(folder: Path) -> list[str]:
    """Return the Java options that trust the certificate authorities of this machine.

    A Java from a wheel has its own list, without a company's authority that the administrator
    added to the system. Python has the system's list; it is written into ``folder`` for Java.
    """
    found = ssl.create_default_context().get_ca_certs(binary_form=True)
    if not found:
        return []
    # Sun's JKS format (sun.security.provider.JavaKeyStore), which needs no package: a header, one
    # entry per certificate, and a SHA-1 over a fixed salt and the content, against accidents only.
    body = struct.pack(">III", 0xFEEDFEED, 2, len(found))
    for n, der in enumerate(found):
        name = f"ca-{n}".encode()
        entry = (2, len(name), name, 0, 5, b"X.509", len(der))
        body += struct.pack(f">IH{len(name)}sQH5sI", *entry) + der
    salted = _PASSWORD.encode("utf-16-be") + b"Mighty Aphrodite" + body
    path = folder / "trusted.jks"
    path.write_bytes(body + hashlib.sha1(salted, usedforsecurity=False).digest())
    return [
        f"-Djavax.net.ssl.trustStore={path}",
        "-Djavax.net.ssl.trustStoreType=JKS",
        f"-Djavax.net.ssl.trustStorePassword={_PASSWORD}",
    ]


def _fill(jar_set: JarSet, jars: Sequence[LockedJar], fetch: Fetch) -> None:
    """Fetch into a folder beside the final one and rename: a partial download is never used."""
    with _staging(jar_set) as staging:
        fetch(jars, staging)
        verify(staging, list(jars))
        ready = staging / "ready"
        ready.mkdir()
        for jar in jars:
            (staging / jar.file_name).rename(ready / jar.file_name)
        write_atomically(ready / _MARKER, file_sha256(jar_set.lock_path) + "\n")
        if jar_set.folder.exists():
            shutil.rmtree(jar_set.folder)
        ready.rename(jar_set.folder)


@contextlib.contextmanager
def _staging(jar_set: JarSet) -> Iterator[Path]:
    """Yield an empty temporary folder on the cache's disk; delete those of killed runs."""
    parent = jar_set.folder.parent
    parent.mkdir(parents=True, exist_ok=True)
    prefix = f".{jar_set.folder.name}-part-"
    for left_over in parent.glob(f"{prefix}*"):
        shutil.rmtree(left_over, ignore_errors=True)
    with tempfile.TemporaryDirectory(dir=parent, prefix=prefix) as staging:
        yield Path(staging)


def _ivy_xml(jars: Sequence[LockedJar]) -> str:
    dependencies = "\n".join(
        f"    <dependency org={quoteattr(jar.organisation)} name={quoteattr(jar.module)}"
        f' rev={quoteattr(jar.version)} transitive="false" conf="default->master"/>'
        for jar in jars
    )
    return f"""<ivy-module version="2.0">
  <info organisation="lagbench" module="jars" revision="1"/>
  <configurations><conf name="default"/></configurations>
  <dependencies>
{dependencies}
  </dependencies>
</ivy-module>
"""


def _ivy_command(
    java: JavaRuntime, options: Sequence[str], ivy_file: Path, folder: Path
) -> list[str]:
    spec = importlib.util.find_spec("pyspark")
    home = Path(spec.origin or "").parent if spec is not None else folder
    found = sorted((home / "jars").glob("ivy-*.jar"))
    if not found:
        raise NotReady("no Ivy: PySpark is not installed in this environment; run `make install`")
    command = [str(java.executable), *options, "-jar", str(found[-1])]
    command += ["-cache", str(folder / "ivy-cache"), "-ivy", str(ivy_file), "-confs", "default"]
    return [*command, "-retrieve", str(folder / "[artifact]-[revision](-[classifier]).[ext]")]


def _run_ivy(command: Sequence[str], log_path: Path) -> bool:
    with log_path.open("wb") as log:
        process = start_tied(command, log=log)
        try:
            return process.wait(timeout=_FETCH_TIMEOUT_SECONDS) == 0
        except subprocess.TimeoutExpired:
            return False
        finally:
            end_process(process.pid, grace_seconds=2)


def _rewrite_lock(jar_set: JarSet) -> None:
    jars = read_lock(jar_set.lock_path)
    with _staging(jar_set) as staging:
        fetch_with_ivy(jars, staging)
        hashed = [replace(jar, sha256=file_sha256(staging / jar.file_name)) for jar in jars]
    write_lock(jar_set.lock_path, hashed)


def main(arguments: Sequence[str] | None = None) -> int:
    """Fill the cache with both sets, or rewrite the lock files."""
    parser = argparse.ArgumentParser(prog="python -m lagbench.embedded.jars", description=__doc__)
    parser.add_argument("--write-lock", action="store_true", help="fetch again, write the hashes")
    options = parser.parse_args(arguments)
    try:
        for jar_set in (BROKER, SPARK):
            started_at = time.monotonic()
            if options.write_lock:
                _rewrite_lock(jar_set)
                sys.stdout.write(f"wrote {jar_set.lock_path.name}\n")
            was_cached = is_cached(jar_set)
            count = len(jar_paths(jar_set))
            seconds = time.monotonic() - started_at
            how = "already there" if was_cached else f"fetched and verified in {seconds:.1f} s"
            sys.stdout.write(f"{jar_set.name} {jar_set.version}: {count} jars, {how}\n")
    except LagbenchError as error:
        sys.stderr.write(f"{error}\n")
        return int(error.exit_code)
    return 0


if __name__ == "__main__":
    sys.exit(main())
