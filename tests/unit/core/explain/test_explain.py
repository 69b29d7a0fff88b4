"""A decision told step by step, and its fields for a log line."""

import json
import re

from tests.fakes.lag_samples import at, judged, lags, offsets, rule

from lagbench.core.explain.explain_lag_scaler import explain
from lagbench.core.lag_scaler.lag_rule import Decision


def explained(decision: Decision, seconds: float) -> dict[str, str]:
    """Return each step's text by its name."""
    return {
        step.name: f"{step.seen} | {step.rule} | {step.result}"
        for step in explain(decision, at(seconds))
    }


def test_the_steps_lead_from_the_sample_to_the_answer() -> None:
    """600 records on partition 1 of 2 for 20 s."""
    steps = explained(judged([lags(2 * number, 0, 600) for number in range(11)]), 21)

    assert list(steps) == [
        "sample", "lag", "stretch", "persistence", "metric", "cap", "stabilization", "activity",
    ]  # fmt: skip
    numbers = {name: re.findall(r"\d+\.\d|\d+", text) for name, text in steps.items()}
    assert {"1.0", "11"} <= {*numbers["sample"]}
    assert {"600", "1", "2"} <= {*numbers["lag"]}
    assert {"1", "20.0"} <= {*numbers["stretch"]}
    assert steps["persistence"].endswith("| persistent")
    assert "2" in numbers["cap"]
    assert steps["activity"].endswith("| active")


def test_lag_that_does_not_persist_yet_says_how_long_it_lasts() -> None:
    """10 s of 20 s."""
    steps = explained(judged([lags(2 * number, 600) for number in range(6)]), 10)

    assert "10.0 s" in steps["persistence"]
    assert steps["persistence"].endswith("not persistent")
    assert steps["metric"].endswith("| 0")


def test_a_stale_sample_is_reported() -> None:
    """Older than 2.5 intervals."""
    assert explained(judged([lags(0, 600)]), 6)["sample"].split("| ")[-1].startswith("stale")


def test_options_are_reported_where_they_act() -> None:
    """Without a commit, limited, even, held: each step names its option."""
    chosen = rule(
        sustain_seconds=0,
        partition_limitation=(0, 1),
        ensure_even_distribution_of_partitions=True,
        exclude_persistent_lag=True,
        scale_down_stabilization_seconds=60,
    )
    samples = [offsets(0, [5000, 7], [4000, -1]), offsets(2, [5000, 7], [5000, -1])]
    steps = explained(judged(samples, chosen), 2)

    assert "commit" in steps["lag"]
    assert "divisor" in steps["cap"]
    assert "1000 (held)" in steps["stabilization"]


def test_ages_and_rates_are_reported() -> None:
    """LagMetric seconds tells an age, projected the growth."""
    aged = rule(lag_metric="seconds", lag_threshold=10)
    old = judged([offsets(2 * n, [10_000 + n], [5]) for n in range(8)], aged)
    grown = rule(lag_metric="projected")
    growing = judged([lags(2 * number, 600 * number) for number in range(9)], grown)

    assert "14.0 s" in explained(old, 14)["lag"]
    assert "+300.0/s" in explained(growing, 16)["projection"]


def test_the_log_fields_are_plain() -> None:
    """They go into a JSON line."""
    fields = judged([lags(2 * number, 0, 600) for number in range(11)]).log_fields()

    assert json.loads(json.dumps(fields)) == fields
    assert fields["stretch_partition"] == 1
    assert fields["metric_value"] == 600
