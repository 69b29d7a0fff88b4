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
from pyspark.sql import types as T  # noqa: N812
from pyspark.sql.pandas.types import to_arrow_schema

from lagbench_spark.errors import UnreadableRun

# Rows of one output file: about 40 MB, a size that is read in one task.
_ROWS_PER_FILE = 2_000_000


@dataclass(frozen=True, slots=True)
class RunFolder:
    """One run's folder: ``tables/<name>/`` as Parquet, small JSON files beside it."""

    session: SparkSession
    location: str

    def table_path(self, name: str) -> str:
        """Return the path of the table."""
        return f"{self.location.rstrip('/')}/tables/{name}"

    def copy_path(self, name: str) -> str:
        """Return the path of the copy of a topic."""
        return f"{self.location.rstrip('/')}/copies/{name}"

    def read_table(self, name: str, schema: T.StructType) -> DataFrame:
        """Return the table with exactly the columns of ``schema``."""
        return self.session.read.schema(schema).parquet(self.table_path(name))

    def write_table(
        self, name: str, schema: T.StructType, table: DataFrame, *, rows: int | None = None
    ) -> None:
        """Replace the table.

        ``rows`` (their approximate number) determines the number of files. Without it the table is
        small: one file, sorted by its first two columns.
        """
        columns = [F.col(field.name).cast(field.dataType) for field in schema.fields]
        chosen = table.select(*columns)
        if rows is None:
            chosen = chosen.coalesce(1).sortWithinPartitions(*schema.names[:2])
        else:
            chosen = chosen.coalesce(file_count(rows))
        chosen.write.mode("overwrite").parquet(self.table_path(name))

    def write_rows(
        self, name: str, schema: T.StructType, rows: Sequence[Mapping[str, Any]]
    ) -> None:
        """Replace a small table by rows of the driver: one file, sorted by its first columns."""
        self.write_columns(name, schema, pa.Table.from_pylist([*rows], to_arrow_schema(schema)))

    def write_columns(self, name: str, schema: T.StructType, columns: pa.Table) -> None:
        """Replace a small table by one of the driver, as ``write_rows`` does."""
        keys = [(key, "ascending") for key in schema.names[:2]]
        table = columns.select(schema.names).cast(to_arrow_schema(schema)).sort_by(keys)
        beside = self.table_path(f".{name}")
        place = self.local_path(beside)
        if place is None:
            self.write_table(name, schema, self.session.createDataFrame(table, schema))
            return
        self.discard(beside)  # of a job that was killed
        Path(place).mkdir(parents=True)
        pq.write_table(table, f"{place}/part-00000.parquet")
        self.publish_table(name, beside, ["part-00000.parquet"])

    def local_path(self, location: str) -> str | None:
        """Return ``location`` as a path of the machine's own files; None: it is in a store."""
        path = self._path(location)
        is_file = self._file_system(path).getUri().getScheme() == "file"
        return str(path.toUri().getPath()) if is_file else None

    def publish_table(self, name: str, beside: str, files: Sequence[str]) -> None:
        """Replace the table by the folder ``beside``, with only the named files of it.

        A task that failed and was repeated has left another file there.

        :raises UnreadableRun: the driver does not see one of the files, or the rename fails.
        """
        source, final = self._path(beside), self._path(self.table_path(name))
        file_system = self._file_system(final)
        found = {status.getPath().getName() for status in file_system.listStatus(source)}
        if missing := sorted(set(files) - found):
            raise UnreadableRun(f"{beside} lacks {missing[0]}, which an executor wrote")
        for left_over in found - set(files):
            file_system.delete(self._path(f"{beside}/{left_over}"), False)
        file_system.delete(final, True)
        if not file_system.rename(source, final):
            raise UnreadableRun(f"{beside} could not be renamed to {final.toString()}")
        file_system.create(self._path(f"{self.table_path(name)}/_SUCCESS"), True).close()

    def discard(self, location: str) -> None:
        """Remove a folder with all in it; a missing one is fine."""
        path = self._path(location)
        self._file_system(path).delete(path, True)

    def read_json(self, name: str) -> dict[str, Any]:
        """Return the object in a JSON file of the folder.

        :raises UnreadableRun: the file is absent or holds no JSON object.
        """
        path = self._hadoop_path(name)
        file_system = self._file_system(path)
        if not file_system.exists(path):
            raise UnreadableRun(f"{path.toString()} does not exist; it is written before this job")
        stream = file_system.open(path)
        try:
            text = bytes(stream.readAllBytes()).decode()
        finally:
            stream.close()
        return parse_object(text, path.toString())

    def has(self, name: str) -> bool:
        """Return whether the folder has a file."""
        path = self._hadoop_path(name)
        return bool(self._file_system(path).exists(path))

    def write_json(self, name: str, content: dict[str, Any]) -> None:
        """Replace a JSON file: written beside it, then renamed, so that no reader sees a part."""
        final, part = self._hadoop_path(name), self._hadoop_path(f".{name}.part")
        file_system = self._file_system(final)
        stream = file_system.create(part, True)
        try:
            stream.write(bytearray((json.dumps(content, indent=2) + "\n").encode()))
        finally:
            stream.close()
        file_system.delete(final, False)
        if not file_system.rename(part, final):
            raise UnreadableRun(f"{part.toString()} could not be renamed to {final.toString()}")

    def remove(self, name: str) -> None:
        """Remove a file of the folder; a missing file is fine."""
        path = self._hadoop_path(name)
        self._file_system(path).delete(path, False)

    def _hadoop_path(self, name: str) -> Any:
        return self._path(f"{self.location.rstrip('/')}/{name}")

    def _path(self, location: str) -> Any:
        return self.session.sparkContext._jvm.org.apache.hadoop.fs.Path(location)  # noqa: SLF001

    def _file_system(self, path: Any) -> Any:
        context = self.session.sparkContext._jsc  # noqa: SLF001 - PySpark offers no other way
        return path.getFileSystem(context.hadoopConfiguration())


def file_count(rows: int) -> int:
    """Return the number of files of a table with about this many rows."""
    return max(2, rows // _ROWS_PER_FILE)


def parse_object(text: str, where: str) -> dict[str, Any]:
    """Return the JSON object in ``text``.

    :raises UnreadableRun: it is not one.
    """
    try:
        content = json.loads(text)
    except json.JSONDecodeError as error:
        raise UnreadableRun(f"{where} is not JSON: {error}") from error
    if not isinstance(content, dict):
        raise UnreadableRun(f"{where} holds a {type(content).__name__}, not an object")
    return content
