"""Do the job once on few records: what a first run loads and compiles is there for the real one."""

from __future__ import annotations

import logging
from dataclasses import replace

from lagbench_spark.accounting import account
from lagbench_spark.fence import Fence
from lagbench_spark.landing import Topics, land
from lagbench_spark.run_folder import RunFolder

_RECORDS = 20
"""Fewer than a run's telemetry has when its load has ended."""

log = logging.getLogger(__name__)


def warm_up(folder: RunFolder, topics: Topics) -> None:
    """Land and account for the first records of the telemetry as if they were all three topics.

    A reader is started, and a Python worker, a decoder, a writer. The results are removed.
    """
    first = {0: _RECORDS}
    fence = Fence(
        events=first,
        processed=first,
        telemetry=first,
        committed={0: None},
        stream_started_at=0,
        fenced_at=1,
    )
    beside = RunFolder(folder.session, f"{folder.location}/.warm-up")
    try:
        every = replace(topics, events=topics.telemetry, processed=topics.telemetry)
        account(land(beside, every, fence))
    except Exception:  # the real run has the same problem, and says it
        log.warning("the job could not be warmed up", exc_info=True)
    finally:
        folder.discard(beside.location)
