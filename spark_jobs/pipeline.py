"""Land one run, account for it and draw it, in one session (submit with spark-submit).

A short run needs one start of Spark, not three.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import replace

from lagbench_spark.accounting import account
from lagbench_spark.landing import Topics, land, read_run
from lagbench_spark.run_folder import FENCE_FILE, Fence, RunFolder, UnreadableRun, parse_fence
from lagbench_spark.session import begin, open_session, reported, require_shared, size_shuffles

_LOOK_SECONDS = 0.1
_WARM_RECORDS = 20
"""Fewer than a run's telemetry has when its load has ended."""

log = logging.getLogger(__name__)


def main(argv: Sequence[str]) -> None:
    """Write every table and accounting.json; a retry replaces them."""
    options = _parser().parse_args(argv)
    topics = None
    if options.bootstrap_servers is not None:
        names = (options.events_topic, options.processed_topic, options.telemetry_topic)
        if None in names:
            raise UnreadableRun("--bootstrap-servers needs --events-topic, … of all three topics")
        topics = Topics(options.bootstrap_servers, *names)
    session = open_session("lagbench pipeline")
    try:
        folder = RunFolder(session, options.run_folder)
        require_shared(folder)
        if options.held_by is not None and topics is not None:
            if not folder.has(FENCE_FILE):
                _warm_up(folder, topics)
            await_fence(folder, holder=options.held_by)
        fence = parse_fence(folder.read_json(FENCE_FILE))
        size_shuffles(session, fence.messages)
        with reported(folder):
            run = read_run(folder, fence) if options.landed else land(folder, topics, fence)
            begin(folder, "accounting")
            account(run)
    finally:
        session.stop()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--run-folder", required=True, help="path or URI of the run's folder")
    parser.add_argument("--bootstrap-servers", help="default: read the run folder's copies")
    for topic in ("events", "processed", "telemetry"):
        parser.add_argument(f"--{topic}-topic")
    landed = "the tables have landed: continue from them"
    parser.add_argument("--landed", action="store_true", help=landed)
    held = "wait for the run's fence, as long as this process is there"
    parser.add_argument("--held-by", type=int, metavar="PID", help=held)
    return parser


def await_fence(folder: RunFolder, *, holder: int) -> None:
    """Wait until the run is fenced.

    :param holder: pid of the process that fences it.
    :raises UnreadableRun: that process has ended.
    """
    while not folder.has(FENCE_FILE):
        try:
            os.kill(holder, 0)
        except ProcessLookupError as error:
            raise UnreadableRun("the run ended before its fence") from error
        time.sleep(_LOOK_SECONDS)


def _warm_up(folder: RunFolder, topics: Topics) -> None:
    """Land and account for the first records of the telemetry as if they were all three topics.

    A first run loads and compiles for the real one: a reader is started, and a Python
    worker, a decoder, a writer. The results are removed.
    """
    ends = {0: _WARM_RECORDS}
    fence = Fence(ends, ends, ends, committed={0: None}, stream_started_at=0, fenced_at=1)
    beside = RunFolder(folder.session, folder.place(".warm-up"))
    try:
        every = replace(topics, events=topics.telemetry, processed=topics.telemetry)
        account(land(beside, every, fence))
    except Exception:  # the real run has the same problem, and says it
        log.warning("the job could not be warmed up", exc_info=True)
    finally:
        folder.remove(".warm-up")


if __name__ == "__main__":
    main(sys.argv[1:])
