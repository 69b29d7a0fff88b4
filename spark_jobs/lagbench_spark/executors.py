"""Require executors that share the driver's run folder, before anything is written.

An executor without the shared disk writes its part of a table to its own disk, the driver commits
only the parts that it sees, and Spark reports a success. Observed as an empty table without any
message.
"""

from __future__ import annotations

import json
import socket
import uuid
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

from lagbench_spark.errors import UnreadableRun
from lagbench_spark.run_folder import RunFolder

_MARKER = "seen-by-executors.json"
# Tasks are assigned in turn: twice as many tasks as cores reach every registered executor.
_TASKS_PER_CORE = 2


def require_shared(folder: RunFolder) -> None:
    """Let the executors read the driver's file, unless they are one process or use a store.

    :raises UnreadableRun: an executor does not see the run folder.
    """
    context = folder.session.sparkContext
    parts = urlsplit(folder.location)
    if context.master.startswith("local") or parts.scheme not in {"", "file"}:
        return
    key = uuid.uuid4().hex
    folder.write_json(_MARKER, {"key": key})
    marker = f"{parts.path.rstrip('/')}/{_MARKER}"

    def blind_host(_: Iterator[int]) -> Iterator[str]:
        try:
            is_seen = json.loads(Path(marker).read_text(encoding="utf-8"))["key"] == key
        except (OSError, ValueError):
            is_seen = False
        return iter([] if is_seen else [socket.gethostname()])

    tasks = _TASKS_PER_CORE * context.defaultParallelism
    try:
        blind = context.parallelize(range(tasks), tasks).mapPartitions(blind_host).collect()
    finally:
        folder.remove(_MARKER)
    if blind:
        raise UnreadableRun(
            f"executors on {', '.join(sorted(set(blind)))} cannot read {folder.location}, which "
            "the driver wrote; the root of the runs must be one file system at the same path on "
            "the driver and on all workers, or s3a://BUCKET/PREFIX"
        )
