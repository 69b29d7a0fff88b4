"""The committed list of a jar set: one line ``SHA-256  organisation:module:version`` per jar."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from lagbench.errors import NotReady, WrongInput

_ALLOWED = "64 hex digits, two blanks, organisation:module:version"
_COORDINATE_PARTS = 3
_SHA256_HEX_DIGITS = 64


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
        if len(digest) != _SHA256_HEX_DIGITS or len(parts) != _COORDINATE_PARTS:
            raise WrongInput(where=str(path), field=f"line {number}", value=line, allowed=_ALLOWED)
        organisation, module, version = parts
        jars.append(LockedJar(organisation, module, version, digest))
    return jars


def write_lock(path: Path, jars: list[LockedJar]) -> None:
    """Write a lock file, sorted by coordinate."""
    lines = [f"{jar.sha256}  {jar.coordinate}\n" for jar in sorted(jars, key=_by_coordinate)]
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


def _by_coordinate(jar: LockedJar) -> str:
    return jar.coordinate
