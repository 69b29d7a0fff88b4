"""The consumer's flags."""

from __future__ import annotations

import subprocess
import sys

import pytest

from lagbench.errors import WrongInput
from lagbench.programs.consumer.settings import ConsumerOptions, parse_options

ENVIRONMENT = {"POD_NAME": "consumer-7", "KAFKA_BOOTSTRAP_SERVERS": "127.0.0.1:9092"}


def options(*arguments: str) -> ConsumerOptions:
    """Parse flags of the run quick-1."""
    return parse_options(["--run-id", "quick-1", *arguments], ENVIRONMENT)


def test_the_run_id_names_topics_and_group() -> None:
    """Topics and group that are not given come from the run id."""
    found = options()

    assert found.topic == "lagbench.quick-1.events"
    assert found.processed_topic == "lagbench.quick-1.processed"
    assert found.telemetry_topic == "lagbench.quick-1.telemetry"
    assert found.group == "enrich.quick-1"
    assert found.bootstrap_servers == "127.0.0.1:9092"
    assert found.pod_name == "consumer-7"


def test_a_given_topic_wins_over_the_run_id() -> None:
    """A flag says more than the run id."""
    assert options("--topic", "elsewhere").topic == "elsewhere"


@pytest.mark.parametrize("dashes", ["-", "--"])
def test_flags_take_one_dash_or_two(dashes: str) -> None:
    """The lab writes one dash, everybody else two."""
    found = options(
        f"{dashes}process-ms=1.5",
        f"{dashes}balancer",
        "range",
        f"{dashes}commit=auto",
        f"{dashes}drain-timeout=7",
        f"{dashes}concurrency=4",
        f"{dashes}drain=off",
    )

    assert (found.process_ms, found.balancer, found.commit) == (1.5, "range", "auto")
    assert (found.shutdown_timeout_seconds, found.concurrency, found.graceful_shutdown) == (
        7.0,
        4,
        False,
    )


@pytest.mark.parametrize(
    ("arguments", "instance_id"),
    [
        ([], None),
        (["--static-membership"], "consumer-7"),
        (["--static-membership=on"], "consumer-7"),
        (["--static-membership=off"], None),
    ],
)
def test_static_membership_uses_the_pods_name(
    arguments: list[str], instance_id: str | None
) -> None:
    """A static member is known by its pod's name."""
    assert options(*arguments).instance_id == instance_id


@pytest.mark.parametrize(
    ("argument", "names"),
    [
        ("--balancer=sticky", ["--balancer", "'sticky'", "cooperative-sticky"]),
        ("--process-ms=-1", ["--process-ms", "'-1'", "0 to 60000"]),
        ("--process-ms=nan", ["--process-ms", "'nan'"]),
        ("--process-ms=fast", ["--process-ms", "'fast'"]),
        ("--concurrency=0", ["--concurrency", "'0'", "1 to 1024"]),
        ("--concurrency=1.5", ["--concurrency", "'1.5'"]),
        ("--commit=never", ["--commit", "'never'", "auto, manual"]),
        ("--drain=maybe", ["--drain", "'maybe'", "on or off"]),
        ("--drain-timeout=0", ["--drain-timeout", "'0'"]),
        ("--session-timeout-ms=10", ["--session-timeout-ms", "'10'"]),
        ("--colour=red", ["--colour=red"]),
    ],
)
def test_a_refused_flag_is_named_with_what_is_allowed(argument: str, names: list[str]) -> None:
    """The message holds flag, value and what is allowed."""
    with pytest.raises(WrongInput) as refused:
        options(argument)

    assert all(name in str(refused.value) for name in names)


def test_pods_of_a_cluster_are_distinguished_by_their_names() -> None:
    """Without localkube's number the pod's name draws the delay: the same for the same name."""
    flags = ["--run-id=a", "--start-seconds=20"]
    delays = [
        parse_options(flags, ENVIRONMENT | {"POD_NAME": name, "POD_ORDINAL": ""})
        for name in ("x", "x", "y")
    ]

    first, again, other = (found.start_delay_seconds for found in delays)
    assert first == again != other
    assert 15 <= first <= 25


def test_without_topic_or_run_id_nothing_starts() -> None:
    """A consumer must know what to consume."""
    with pytest.raises(WrongInput, match="--topic"):
        parse_options([], ENVIRONMENT)


def test_without_a_pod_name_nothing_starts() -> None:
    """Ledger and telemetry name the pod: there is no default for it."""
    with pytest.raises(WrongInput, match="POD_NAME"):
        parse_options(["--run-id=a"], {"KAFKA_BOOTSTRAP_SERVERS": "b:1"})


def test_the_program_exits_2_with_one_line() -> None:
    """A rejected flag costs exit code 2 and one line, no traceback."""
    command = [sys.executable, "-m", "lagbench.programs.consumer", "--balancer=sticky"]

    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)

    assert ended.returncode == 2
    assert len(ended.stderr.strip().splitlines()) == 1
    assert "cooperative-sticky" in ended.stderr
