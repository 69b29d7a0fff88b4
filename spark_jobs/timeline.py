"""Draw one landed run over time (submit with spark-submit)."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from bench_spark.arguments import add_fence, fence_of, job_parser
from bench_spark.executors import require_shared
from bench_spark.run_folder import RunFolder
from bench_spark.session import open_session, size_shuffles
from bench_spark.timelines import draw
from bench_spark.work import read_work


def main(argv: Sequence[str]) -> None:
    """Write the tables of the run over time; a retry replaces them."""
    parser = job_parser(__doc__)
    add_fence(parser)
    options = parser.parse_args(argv)
    session = open_session("lagbench timeline")
    try:
        folder = RunFolder(session, options.run_folder)
        require_shared(folder)
        fence = fence_of(options, folder)
        size_shuffles(session, fence.messages)
        draw(read_work(folder, fence))
    finally:
        session.stop()


if __name__ == "__main__":
    main(sys.argv[1:])
