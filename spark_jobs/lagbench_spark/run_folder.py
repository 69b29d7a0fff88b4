"""Read and write a job's files in the run folder, on a disk or in an object store.

Everything goes through Hadoop's file systems, so both a local path and a URI work.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from lagbench_spark.schemas import spark_schema

FENCE_FILE = "fence.json"
# Rows of one output file: about 40 MB, a size that is read in one task.
_ROWS_PER_FILE = 2_000_000


class UnreadableRun(ValueError):
    """The run folder or its topics lack data that a job needs."""


@dataclass(frozen=True, slots=True)
class Fence:
    """The records of the run: offsets below ``events``, ``processed`` and ``telemetry``.

    The end offsets were frozen after the producer flushed and the consumers stopped.
    ``committed`` holds the group's next offset to read, None if it has committed nothing.
    """

    events: dict[int, int]
    processed: dict[int, int]
    telemetry: dict[int, int]
    committed: dict[int, int | None]
    stream_started_at: int | None
    fenced_at: int | None = None
    identity_run_id: str | None = None
    """The run that messages name in their identity header; None: the value has the identity."""
    accounting: str | None = None
    """Level of a consumer that is not lagbench's: commits, output or ledger. None: it is."""

    @property
    def has_work(self) -> bool:
        """True: the processed messages are known by their identity."""
        return self.accounting != "commits"

    @property
    def messages(self) -> int:
        """Offsets below the fence in the events topic."""
        return sum(self.events.values())


def parse_fence(content: Mapping[str, Any]) -> Fence:
    """Return the fence in a decoded ``fence.json``.

    :raises UnreadableRun: a part is missing or is not a mapping of partition to offset.
    """

    def offsets(name: str) -> dict[int, int]:
        return {int(partition): int(offset) for partition, offset in content[name].items()}

    def instant(name: str) -> int | None:
        return None if content.get(name) is None else int(content[name])

    try:
        committed = content["committed"].items()
        return Fence(
            events=offsets("events"),
            processed=offsets("processed"),
            telemetry=offsets("telemetry"),
            committed={int(p): None if at is None else int(at) for p, at in committed},
            stream_started_at=instant("stream_started_at"),
            fenced_at=instant("fenced_at") or None,
            identity_run_id=content.get("identity_run_id"),
            accounting=content.get("accounting"),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise UnreadableRun(
            f"the fence lacks or garbles {error}; it needs events, processed, telemetry and "
            'committed, each as {"partition": offset}'
        ) from error


@dataclass(frozen=True, slots=True)
class RunFolder:
    """One run's folder: ``tables/<name>/`` as Parquet, small JSON files beside it."""

    session: SparkSession
    location: str

    def place(self, name: str) -> str:
        """Return the location of a file or folder in it."""
        return f"{self.location.rstrip('/')}/{name}"

    def local_path(self, name: str) -> str | None:
        """Return the place as a path of the machine's own files; None: it is in a store."""
        path, file_system = self._at(name)
        is_file = file_system.getUri().getScheme() == "file"
        return str(path.toUri().getPath()) if is_file else None

    def read_table(self, name: str, schema: pa.Schema) -> DataFrame:
        """Return the table with exactly the columns of ``schema``."""
        reader = self.session.read.schema(spark_schema(schema))
        return reader.parquet(self.place(f"tables/{name}"))

    def write_table(
        self, name: str, schema: pa.Schema, table: DataFrame, *, rows: int | None = None
    ) -> None:
        """Replace the table.

        ``rows`` (their approximate number) determines the number of files. Without it the table is
        small: one file, sorted by its first two columns.
        """
        fields = spark_schema(schema).fields
        chosen = table.select(*(F.col(field.name).cast(field.dataType) for field in fields))
        if rows is None:
            chosen = chosen.coalesce(1).sortWithinPartitions(*schema.names[:2])
        else:
            chosen = chosen.coalesce(file_count(rows))
        chosen.write.mode("overwrite").parquet(self.place(f"tables/{name}"))

    def write_rows(self, name: str, schema: pa.Schema, rows: pa.Table) -> None:
        """Replace a small table by rows of the driver: one file, sorted by its first columns."""
        keys = [(key, "ascending") for key in schema.names[:2]]
        table = rows.select(schema.names).cast(schema).sort_by(keys)
        place = self.local_path(f"tables/.{name}")
        if place is None:
            found = self.session.createDataFrame(table, spark_schema(schema))
            self.write_table(name, schema, found)
            return
        self.remove(f"tables/.{name}")  # of a job that was killed
        Path(place).mkdir(parents=True)
        pq.write_table(table, f"{place}/part-00000.parquet")
        self.publish_table(name, ["part-00000.parquet"])

    def publish_table(self, name: str, files: Sequence[str]) -> None:
        """Replace the table by the folder ``.name`` beside it, with only the named files of it.

        A task that failed and was repeated has left another file there.

        :raises UnreadableRun: the driver does not see one of the files, or the rename fails.
        """
        source, file_system = self._at(f"tables/.{name}")
        found = {status.getPath().getName() for status in file_system.listStatus(source)}
        if missing := sorted(set(files) - found):
            raise UnreadableRun(f"{source.toString()} lacks {missing[0]}, which an executor wrote")
        for left_over in found - set(files):
            self.remove(f"tables/.{name}/{left_over}")
        self._rename(f"tables/.{name}", f"tables/{name}")
        file_system.create(self._at(f"tables/{name}/_SUCCESS")[0], True).close()

    def read_json(self, name: str) -> dict[str, Any]:
        """Return the object in a JSON file of the folder.

        :raises UnreadableRun: the file is absent or holds no JSON object.
        """
        path, file_system = self._at(name)
        if not file_system.exists(path):
            raise UnreadableRun(f"{path.toString()} does not exist; it is written before this job")
        stream = file_system.open(path)
        try:
            content = json.loads(bytes(stream.readAllBytes()))
        except ValueError as error:
            raise UnreadableRun(f"{path.toString()} is not JSON: {error}") from error
        finally:
            stream.close()
        if not isinstance(content, dict):
            raise UnreadableRun(f"{path.toString()} holds no JSON object")
        return content

    def has(self, name: str) -> bool:
        """Return whether the folder has a file."""
        path, file_system = self._at(name)
        return bool(file_system.exists(path))

    def write_json(self, name: str, content: dict[str, Any]) -> None:
        """Replace a JSON file: written beside it, then renamed, so that no reader sees a part."""
        path, file_system = self._at(f".{name}.part")
        stream = file_system.create(path, True)
        try:
            stream.write(bytearray((json.dumps(content, indent=2) + "\n").encode()))
        finally:
            stream.close()
        self._rename(f".{name}.part", name)

    def remove(self, name: str) -> None:
        """Remove a file, or a folder with all in it; a missing one is fine."""
        path, file_system = self._at(name)
        file_system.delete(path, True)

    def _rename(self, name: str, final: str) -> None:
        source, file_system = self._at(name)
        self.remove(final)
        if not file_system.rename(source, self._at(final)[0]):
            raise UnreadableRun(f"{source.toString()} could not be renamed to {final}")

    def _at(self, name: str) -> tuple[Any, Any]:
        """Return Hadoop's path of a file and its file system; PySpark offers no other way."""
        context = self.session.sparkContext
        path = context._jvm.org.apache.hadoop.fs.Path(self.place(name))  # noqa: SLF001
        return path, path.getFileSystem(context._jsc.hadoopConfiguration())  # noqa: SLF001


def file_count(rows: int) -> int:
    """Return the number of files of a table with about this many rows."""
    return max(2, rows // _ROWS_PER_FILE)
