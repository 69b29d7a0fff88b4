"""The fence: end offsets frozen after the producer flushed and the consumers stopped."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lagbench_spark.errors import UnreadableRun
from lagbench_spark.run_folder import RunFolder

FILE = "fence.json"
_LOOK_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class Fence:
    """The records of the run: offsets below ``events``, ``processed`` and ``telemetry``.

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


def await_fence(folder: RunFolder, *, holder: int) -> None:
    """Wait until the run is fenced.

    :param holder: pid of the process that fences it.
    :raises UnreadableRun: that process has ended.
    """
    while not folder.has(FILE):
        try:
            os.kill(holder, 0)
        except ProcessLookupError as error:
            raise UnreadableRun("the run ended before its fence") from error
        time.sleep(_LOOK_SECONDS)


def parse_fence(content: Mapping[str, Any]) -> Fence:
    """Return the fence in a decoded ``fence.json``.

    :raises UnreadableRun: a part is missing or is not a mapping of partition to offset.
    """
    try:
        return Fence(
            events=_offsets(content["events"]),
            processed=_offsets(content["processed"]),
            telemetry=_offsets(content["telemetry"]),
            committed={
                int(partition): None if offset is None else int(offset)
                for partition, offset in content["committed"].items()
            },
            stream_started_at=_instant(content.get("stream_started_at")),
            fenced_at=_instant(content.get("fenced_at")) or None,
            identity_run_id=content.get("identity_run_id"),
            accounting=content.get("accounting"),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise UnreadableRun(
            f"the fence lacks or garbles {error}; it needs events, processed, telemetry and "
            'committed, each as {"partition": offset}'
        ) from error


def _offsets(content: Mapping[str, Any]) -> dict[int, int]:
    return {int(partition): int(offset) for partition, offset in content.items()}


def _instant(value: Any) -> int | None:
    return None if value is None else int(value)
