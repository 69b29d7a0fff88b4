"""Command lines of the jobs."""

from __future__ import annotations

import argparse

from bench_spark.errors import UnreadableRun
from bench_spark.fence import Fence, parse_fence
from bench_spark.landing import Topics
from bench_spark.run_folder import RunFolder, parse_object


def job_parser(description: str | None) -> argparse.ArgumentParser:
    """Return a parser with the argument of every job."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--run-folder", required=True, help="path or URI of the run's folder")
    return parser


def add_topics(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of jobs that read Kafka, or the run folder's copies of the topics."""
    parser.add_argument("--bootstrap-servers", help="default: read the run folder's copies")
    parser.add_argument("--events-topic")
    parser.add_argument("--processed-topic")
    parser.add_argument("--telemetry-topic")


def add_fence(parser: argparse.ArgumentParser) -> None:
    """Add the argument of jobs that need the fence."""
    parser.add_argument(
        "--fence-json", help="the fence as JSON, or a file with it; default: the run folder's"
    )


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


def fence_of(options: argparse.Namespace, folder: RunFolder) -> Fence:
    """Return the fence from the command line, else from the run folder."""
    if options.fence_json is None:
        return parse_fence(folder.read_json("fence.json"))
    if options.fence_json.lstrip().startswith("{"):
        return parse_fence(parse_object(options.fence_json, "--fence-json"))
    parent, _, name = options.fence_json.rpartition("/")
    return parse_fence(RunFolder(folder.session, parent or ".").read_json(name))
