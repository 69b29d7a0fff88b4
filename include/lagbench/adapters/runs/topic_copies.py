"""Copies of a run's topics in its folder, made when the accounting failed and they are to go.

A copy holds every record below the fence as it lies in the log: partition, offset, timestamp,
value and headers, in Parquet, which the Spark job reads in Kafka's place
(``lagbench account RUN``). The bench deletes its broker's data with the broker, so topics that
merely stayed would not outlive it. ``Staging`` carries what Spark reads and writes of a run between
the run folder and where Spark sees it.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from confluent_kafka import Consumer, KafkaException, Message, TopicPartition
from pyarrow import fs

from lagbench.adapters.runs.run_folder import LANDED_TABLES, RunFolder
from lagbench.errors import NotReady
from lagbench.shared_with_spark.event import header_pairs

SILENT_SECONDS = 60.0

_SCHEMA = pa.schema(
    [
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", tz="UTC")),
        ("value", pa.binary()),
        ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
    ]
)

_MESSAGES_AT_ONCE = 20_000
_MICROSECONDS = 1_000


def keep_evidence(settings: Callable[[], Mapping[str, Any]], folder: RunFolder) -> list[str]:
    """Copy the topics of a fenced run without an accounting; return which were copied.

    Nothing is copied of a run that was never fenced (it measured nothing), that is accounted for,
    or whose tables have landed. A repetition copies the missing ones.

    :param settings: returns librdkafka's; asked only when there is something to copy.

    :raises NotReady: a topic cannot be read up to the fence; the copies that are whole stay.
    """
    if not folder.fence.exists() or folder.accounting.exists() or folder.has_landed():
        return []
    fence, names = folder.read_json(folder.fence), folder.names
    copied = []
    for kind, topic in zip(LANDED_TABLES, names.topics, strict=True):
        if folder.has_copy(kind):
            continue
        ends = {int(partition): int(end) for partition, end in fence[kind].items()}
        _copy(settings(), topic, ends, folder.copy(kind))
        copied.append(topic)
    return copied


def _copy(settings: Mapping[str, Any], topic: str, ends: Mapping[int, int], target: Path) -> None:
    part = target.with_name(f".{target.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    client = {
        **settings,
        "group.id": "lagbench-copies",  # the client asks for one; nothing is committed
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
        "isolation.level": "read_committed",  # as the accounting reads
    }
    with closing(Consumer(client)) as consumer:
        try:
            with pq.ParquetWriter(part / "part-0.parquet", _SCHEMA, compression="zstd") as writer:
                _read(consumer, topic, ends, writer)
        except KafkaException as error:
            raise NotReady(f"the topic {topic} could not be copied to {target}: {error}") from error
    part.rename(target)


def _read(
    consumer: Consumer, topic: str, ends: Mapping[int, int], writer: pq.ParquetWriter
) -> None:
    """Write what lies below the fence; ends of transactions have offsets, but no message."""
    open_ends = {}
    for partition, end in ends.items():
        place = TopicPartition(topic, partition)
        if consumer.get_watermark_offsets(place, timeout=30)[0] < end:
            open_ends[partition] = end
    consumer.assign([TopicPartition(topic, partition, 0) for partition in open_ends])
    heard_at = time.monotonic()
    while open_ends:
        found = [m for m in consumer.consume(_MESSAGES_AT_ONCE, timeout=0.5) if m.error() is None]
        below = [m for m in found if (m.offset() or 0) < ends[m.partition() or 0]]
        if below:
            writer.write_batch(_batch(below))
        if found:
            heard_at = time.monotonic()
        for place in consumer.position([TopicPartition(topic, p) for p in open_ends]):
            if place.offset >= open_ends[place.partition]:
                del open_ends[place.partition]
        if time.monotonic() - heard_at > SILENT_SECONDS:
            raise NotReady(
                f"the topic {topic} returned no record for {SILENT_SECONDS:g} s, and partitions "
                f"{sorted(open_ends)} have not been read up to the fence"
            )


def _batch(messages: Sequence[Message]) -> pa.RecordBatch:
    columns = [
        [message.partition() for message in messages],
        [message.offset() for message in messages],
        [message.timestamp()[1] * _MICROSECONDS for message in messages],
        [message.value() for message in messages],
        [
            [{"key": name, "value": value} for name, value in header_pairs(message.headers())]
            or None
            for message in messages
        ],
    ]
    arrays = [pa.array(c, field.type) for c, field in zip(columns, _SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=_SCHEMA)


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
