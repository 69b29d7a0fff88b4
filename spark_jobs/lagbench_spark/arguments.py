"""Command line of the pipeline."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from lagbench_spark.errors import UnreadableRun
from lagbench_spark.landing import Topics


def parse_arguments(argv: Sequence[str], description: str | None) -> argparse.Namespace:
    """Return run folder, topics and whether the tables have landed."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--run-folder", required=True, help="path or URI of the run's folder")
    parser.add_argument("--bootstrap-servers", help="default: read the run folder's copies")
    parser.add_argument("--events-topic")
    parser.add_argument("--processed-topic")
    parser.add_argument("--telemetry-topic")
    parser.add_argument(
        "--landed", action="store_true", help="the tables have landed: continue from them"
    )
    parser.add_argument(
        "--held-by",
        type=int,
        metavar="PID",
        help="wait for the run's fence, as long as this process is there",
    )
    return parser.parse_args(argv)


def topics_of(options: argparse.Namespace) -> Topics | None:
    """Return the run's topics as given; None: the run folder has copies of them.

    :raises UnreadableRun: servers are given, but not every topic.
    """
    if options.bootstrap_servers is None:
        return None
    topics = (options.events_topic, options.processed_topic, options.telemetry_topic)
    if None in topics:
        raise UnreadableRun("--bootstrap-servers needs --events-topic, … of all three topics")
    return Topics(options.bootstrap_servers, *topics)
