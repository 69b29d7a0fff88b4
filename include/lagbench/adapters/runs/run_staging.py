"""Carry what Spark reads and writes of a run between the run folder and where Spark sees it."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyarrow import fs

from lagbench.adapters.runs.run_folder import RunFolder
from lagbench.errors import NotReady


@dataclass(frozen=True, slots=True)
class Staging:
    """A run's second folder, on another file system or at another place of this one."""

    file_system: Any
    location: str

    @classmethod
    def in_folder(cls, root: str, run_id: str) -> Staging:
        """Return the run's place below a folder that this machine and Spark see alike."""
        return cls(fs.LocalFileSystem(), f"{root}/{run_id}")

    @classmethod
    def in_s3(cls, runs: str, run_id: str, *, endpoint: str | None, region: str | None) -> Staging:
        """Return the run's place in an object store, with the credentials of the environment."""
        scheme, _, host = (endpoint or "").rpartition("://")
        try:
            store = fs.S3FileSystem(
                endpoint_override=host or None,
                scheme=scheme or None,
                region=region,
                connect_timeout=10,
                request_timeout=60,
            )
        except (OSError, ValueError) as error:
            raise NotReady(
                f"the object store {endpoint or runs} cannot be used: {error}"
            ) from error
        return cls(store, f"{runs.removeprefix('s3a://')}/{run_id}")

    def put(self, folder: RunFolder) -> None:
        """Copy what the pipeline reads from a run folder.

        :raises NotReady: the place cannot be written.
        """
        with self._named("write"):
            self.file_system.create_dir(self.location, recursive=True)
            for file in (folder.fence, folder.manifest):
                if file == folder.fence or file.exists():
                    self._copy(str(file), f"{self.location}/{file.name}")

    def fetch(self, folder: RunFolder) -> None:
        """Replace the run folder's tables and accounting by those that Spark wrote.

        Each is complete beside the final place before it takes it; a repetition is safe.

        :raises NotReady: the place cannot be read.
        """
        with tempfile.TemporaryDirectory(dir=folder.path, prefix=".fetched-") as part_name:
            part = Path(part_name)
            with self._named("read"):
                for name in ("tables", "accounting.json"):
                    found = self.file_system.get_file_info(f"{self.location}/{name}")
                    if found.type != fs.FileType.NotFound:
                        self._copy(f"{self.location}/{name}", str(part / name), out=True)
            folder.tables.mkdir(exist_ok=True)
            for table in sorted((part / "tables").glob("[!.]*")):
                final = folder.table(table.name)
                if final.exists():
                    shutil.rmtree(final)
                table.rename(final)
            if (part / "accounting.json").exists():
                (part / "accounting.json").replace(folder.accounting)

    def _copy(self, source: str, target: str, *, out: bool = False) -> None:
        """Copy to the place, or out of it."""
        here, there = fs.LocalFileSystem(), self.file_system
        systems = (there, here) if out else (here, there)
        fs.copy_files(
            source, target, source_filesystem=systems[0], destination_filesystem=systems[1]
        )

    @contextlib.contextmanager
    def _named(self, verb: str) -> Iterator[None]:
        """Say which place failed, and what the client said."""
        try:
            yield
        except OSError as error:
            raise NotReady(
                f"could not {verb} {self.location} for Spark: {error}. Check lagbench_runs, "
                "lagbench_s3_endpoint and the credentials in the environment (AWS_ACCESS_KEY_ID, "
                "AWS_SECRET_ACCESS_KEY)"
            ) from error
