"""The recorder's flags."""

from __future__ import annotations

import pytest

from lagbench.errors import WrongInput
from lagbench.programs.recorder.settings import parse_options

ENVIRONMENT = {"POD_NAME": "recorder-1", "KAFKA_BOOTSTRAP_SERVERS": "127.0.0.1:9092"}


def test_the_run_id_is_enough() -> None:
    """Topics, group, namespace and deployment have names of their own."""
    options = parse_options(["--run-id=quick-1"], ENVIRONMENT)

    assert options.topic == "lagbench.quick-1.events"
    assert options.group == "enrich.quick-1"
    assert options.telemetry_topic == "lagbench.quick-1.telemetry"
    assert (options.namespace, options.deployment) == ("lagbench", "consumer")
    assert (options.source, options.interval_seconds) == ("recorder-1", 1.0)
    assert options.observed_pids == {}
    assert not options.has_metric_aliases


@pytest.mark.parametrize(("text", "is_on"), [("on", True), ("off", False)])
def test_aliases_are_switched_on(text: str, *, is_on: bool) -> None:
    """The manifest of a run says whether metrics have the names of other exporters as well."""
    options = parse_options(["--run-id=a", f"--metric-aliases={text}"], ENVIRONMENT)

    assert options.has_metric_aliases is is_on


def test_observed_processes_come_from_the_environment() -> None:
    """The embedded bench tells which processes are its own."""
    environment = ENVIRONMENT | {"LAGBENCH_OBSERVED_PIDS": '{"broker": 12, "localkube": 13}'}

    assert parse_options(["-run-id", "a"], environment).observed_pids == {
        "broker": 12,
        "localkube": 13,
    }


@pytest.mark.parametrize(
    ("arguments", "environment", "named"),
    [
        ([], {}, "--topic"),
        (["--run-id=a", "--interval-seconds=0"], {}, "--interval-seconds = '0'"),
        (["--run-id=a", "--interval-seconds=often"], {}, "'often'"),
        (["--run-id=a", "--metric-aliases=yes"], {}, "--metric-aliases = 'yes'"),
        (["--run-id=a", "--colour=red"], {}, "--colour=red"),
        (["--run-id=a"], {"LAGBENCH_OBSERVED_PIDS": "[1]"}, "LAGBENCH_OBSERVED_PIDS"),
        (["--run-id=a"], {"LAGBENCH_OBSERVED_PIDS": '{"a": "b"}'}, "LAGBENCH_OBSERVED_PIDS"),
        (["--run-id=a"], {"LAGBENCH_OBSERVED_PIDS": "{"}, "LAGBENCH_OBSERVED_PIDS"),
    ],
)
def test_wrong_input_is_named(
    arguments: list[str], environment: dict[str, str], named: str
) -> None:
    """The message says which flag or variable."""
    with pytest.raises(WrongInput) as refused:
        parse_options(arguments, ENVIRONMENT | environment)

    assert named in str(refused.value)


def test_the_run_s_own_pods_are_watched() -> None:
    """Pods of somebody else may have the same app label."""
    of_run = parse_options(["--run-id=quick-1"], ENVIRONMENT)
    topics = ["--topic=a", "--group=b", "--telemetry-topic=c"]

    assert of_run.pod_selector == "app=consumer,lagbench.io/run-id=quick-1"
    assert parse_options(topics, ENVIRONMENT).pod_selector == "app=consumer"
