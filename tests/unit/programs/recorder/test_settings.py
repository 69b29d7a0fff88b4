"""The recorder's settings."""

from __future__ import annotations

import pytest

from lagbench.errors import WrongInput
from lagbench.programs.recorder.recorder_settings import parse_options

ENVIRONMENT = {"POD_NAME": "recorder-1", "KAFKA_BOOTSTRAP_SERVERS": "127.0.0.1:9092"}


def test_the_run_id_is_enough() -> None:
    """Topics, group, namespace and deployment have names of their own."""
    options = parse_options(["--run-id=quick-1"], ENVIRONMENT)

    assert (options.topic, options.group) == ("lagbench.quick-1.events", "enrich.quick-1")
    assert options.telemetry_topic == "lagbench.quick-1.telemetry"
    assert (options.namespace, options.deployment) == ("lagbench", "consumer")
    assert (options.source, options.interval_seconds) == ("recorder-1", 1.0)
    assert (options.observed_pids, options.has_metric_aliases) == ({}, False)
    assert parse_options(["--run-id=a", "-metric-aliases"], ENVIRONMENT).has_metric_aliases


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ([], "--topic"),
        (["--run-id=a", "--interval-seconds=0"], "--interval-seconds"),
        (["--run-id=a", '--observed-pids={"a": "b"}'], "--observed-pids.a"),
    ],
)
def test_wrong_input_is_named(arguments: list[str], field: str) -> None:
    """The error has the flag."""
    with pytest.raises(WrongInput, check=lambda error: error.field == field):
        parse_options(arguments, ENVIRONMENT)


def test_the_run_s_own_pods_are_watched() -> None:
    """Pods of somebody else may have the same app label."""
    of_run = parse_options(["--run-id=quick-1"], ENVIRONMENT)
    topics = ["--topic=a", "--group=b", "--telemetry-topic=c"]

    assert of_run.pod_selector == "app=consumer,lagbench.io/run-id=quick-1"
    assert parse_options(topics, ENVIRONMENT).pod_selector == "app=consumer"
