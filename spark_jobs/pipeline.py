"""Land one run, account for it and draw it, in one session (submit with spark-submit).

The same work as land.py, account.py and timeline.py; a short run needs one start, not three.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from bench_spark.accounting import account
from bench_spark.arguments import add_fence, add_topics, fence_of, job_parser, topics_of
from bench_spark.executors import require_shared
from bench_spark.landing import land
from bench_spark.run_folder import RunFolder
from bench_spark.session import at_once, open_session, size_shuffles
from bench_spark.timelines import draw
from bench_spark.work import read_work


def main(argv: Sequence[str]) -> None:
    """Write every table and accounting.json; a retry replaces them."""
    parser = job_parser(__doc__)
    add_topics(parser)
    add_fence(parser)
    parser.add_argument("--landed", action="store_true", help="the tables have landed: go on")
    options = parser.parse_args(argv)
    session = open_session("lagbench pipeline")
    try:
        folder = RunFolder(session, options.run_folder)
        require_shared(folder)
        fence = fence_of(options, folder)
        size_shuffles(session, fence.messages)
        if not options.landed:
            land(folder, topics_of(options), fence)
        work = read_work(folder, fence)
        at_once(lambda: account(work), lambda: draw(work))
    finally:
        session.stop()


if __name__ == "__main__":
    main(sys.argv[1:])
