"""Land the topics of one run as Parquet tables in its run folder (submit with spark-submit)."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from bench_spark.arguments import add_fence, add_topics, fence_of, job_parser, topics_of
from bench_spark.executors import require_shared
from bench_spark.landing import land
from bench_spark.run_folder import RunFolder
from bench_spark.session import open_session, size_shuffles


def main(argv: Sequence[str]) -> None:
    """Write the tables events, processed and telemetry; a retry replaces them."""
    parser = job_parser(__doc__)
    add_topics(parser)
    add_fence(parser)
    options = parser.parse_args(argv)
    session = open_session("lagbench land")
    try:
        folder = RunFolder(session, options.run_folder)
        require_shared(folder)
        fence = fence_of(options, folder)
        size_shuffles(session, fence.messages)
        land(folder, topics_of(options), fence)
    finally:
        session.stop()


if __name__ == "__main__":
    main(sys.argv[1:])
