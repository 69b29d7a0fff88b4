"""Land one run, account for it and draw it, in one session (submit with spark-submit).

A short run needs one start of Spark, not three.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from lagbench_spark.accounting import account
from lagbench_spark.arguments import parse_arguments, topics_of
from lagbench_spark.executors import require_shared
from lagbench_spark.fence import FILE, await_fence, parse_fence
from lagbench_spark.landing import land, landed
from lagbench_spark.progress import begin, reported
from lagbench_spark.run_folder import RunFolder
from lagbench_spark.session import open_session, size_shuffles
from lagbench_spark.warm_up import warm_up


def main(argv: Sequence[str]) -> None:
    """Write every table and accounting.json; a retry replaces them."""
    options = parse_arguments(argv, __doc__)
    session = open_session("lagbench pipeline")
    try:
        folder = RunFolder(session, options.run_folder)
        require_shared(folder)
        topics = topics_of(options)
        if options.held_by is not None and topics is not None:
            if not folder.has(FILE):
                warm_up(folder, topics)
            await_fence(folder, holder=options.held_by)
        fence = parse_fence(folder.read_json(FILE))
        size_shuffles(session, fence.messages)
        with reported(folder):
            work = landed(folder, fence) if options.landed else land(folder, topics, fence)
            begin(folder, "accounting")
            account(work)
    finally:
        session.stop()


if __name__ == "__main__":
    main(sys.argv[1:])
