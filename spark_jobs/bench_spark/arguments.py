"""Command lines of the jobs."""

from __future__ import annotations

import argparse

from bench_spark.fence import Fence, parse_fence
from bench_spark.landing import Topics
from bench_spark.run_folder import RunFolder, parse_object


def job_parser(description: str | None) -> argparse.ArgumentParser:
    """Return a parser with the argument of every job."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--run-folder", required=True, help="path or URI of the run's folder")
    return parser


def add_topics(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of jobs that read Kafka."""
    parser.add_argument("--bootstrap-servers", required=True)
    parser.add_argument("--events-topic", required=True)
    parser.add_argument("--processed-topic", required=True)
    parser.add_argument("--telemetry-topic", required=True)


def add_fence(parser: argparse.ArgumentParser) -> None:
    """Add the argument of jobs that need the fence."""
    parser.add_argument(
        "--fence-json", help="the fence as JSON, or a file with it; default: the run folder's"
    )


def topics_of(options: argparse.Namespace) -> Topics:
    """Return the run's topics as given."""
    return Topics(
        bootstrap_servers=options.bootstrap_servers,
        events=options.events_topic,
        processed=options.processed_topic,
        telemetry=options.telemetry_topic,
    )


def fence_of(options: argparse.Namespace, folder: RunFolder) -> Fence:
    """Return the fence from the command line, else from the run folder."""
    if options.fence_json is None:
        return parse_fence(folder.read_json("fence.json"))
    if options.fence_json.lstrip().startswith("{"):
        return parse_fence(parse_object(options.fence_json, "--fence-json"))
    parent, _, name = options.fence_json.rpartition("/")
    return parse_fence(RunFolder(folder.session, parent or ".").read_json(name))
