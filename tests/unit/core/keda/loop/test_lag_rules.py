"""Beside the recorded lag of KEDA's kafka trigger: bounds of the cap, formulas, hours."""

from __future__ import annotations

import copy
import json
import math
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.fakes.policies import kafka, scaled_object
from tests.fakes.triggers import read_trigger

from lagbench.core.keda.formula import Formula, FormulaRefusedError, NotEvaluatedError
from lagbench.core.keda.loop.metric_readings import (
    NO_INTEGER_MILLI,
    CompositeFormula,
    FormulaFailed,
)
from lagbench.core.keda.loop.scalers import CronScaler, ScalerFailed
from lagbench.core.keda.loop.source_metrics import PartitionOffsets, PersistentLagMemory, read_lag
from lagbench.core.keda.object.scaled_object import parse_scaled_object
from lagbench.core.keda.triggers.cron_trigger import CronTrigger


def test_an_unknown_offset_is_no_lag_at_all() -> None:
    """Lag is None where an offset is unknown, never zero."""
    assert PartitionOffsets(end=None, committed=3).lag_records is None
    assert PartitionOffsets(end=3, committed=None).lag_records is None
    assert PartitionOffsets(end=3, committed=3).lag_records == 0


@given(
    lags=st.lists(st.integers(0, 10_000), min_size=1, max_size=40),
    threshold=st.integers(1, 500),
    is_even=st.booleans(),
)
def test_the_metric_never_asks_for_more_than_one_pod_above_the_partitions(
    lags: list[int], threshold: int, is_even: bool
) -> None:
    """With an even distribution the pods asked for share the partitions without a rest."""
    even = {"ensureEvenDistributionOfPartitions": "true"} if is_even else {}
    rules = read_trigger("kafka", kafka(lagThreshold=str(threshold), **even)["metadata"])
    offsets = {
        ("t", number): PartitionOffsets(10_000, 10_000 - lag) for number, lag in enumerate(lags)
    }
    reading, _ = read_lag(rules, offsets, PersistentLagMemory())

    assert math.ceil(reading.metric / threshold) <= len(lags) + (not is_even)
    if is_even:
        assert reading.metric % threshold == 0
        assert len(lags) % (reading.metric // threshold) == 0


VALUES = {"a": 12.0, "b": 5.0}


def milli(
    formula: str, values: dict[str, float | None] | None = None, nil: int | None = None
) -> int:
    """Compile and evaluate over two triggers."""
    read = Formula(formula, ["a", "b"])
    return CompositeFormula(read, nil_milli=nil).evaluate_milli(values or VALUES)


@pytest.mark.parametrize(
    ("formula", "expected"),
    [
        ("a + b", 17_000),
        ("(a - b) / 3", 2_333),
        ("(b - a) / 3", -2_333),
        ("a > b ? a : b", 12_000),
        ("a < b || !(b >= 5) ? 1 : 2", 2_000),
        ("a > 1 and b < 6 ? 1 : 2", 1_000),
        ("not (a == b) ? 3 : 4", 3_000),
        ("-b ** 2", -25_000),
        ("2 ^ 3 ** 2", 512_000),
        ("7 / 2 + int(a) % 5", 5_500),
        ("max(a, b, 20) + min([a, b])", 25_000),
        ("abs(b - a) + round(2.5) + ceil(0.1) + floor(1.9)", 12_000),
        ("sum([a, b]) / count([a > 1, b > 9]) + mean(a, b) + len([a])", 26_500),
        ("1e3 + 0x10 + 1_0", 1_026_000),
        ("float(a) + 1", 13_000),
        ('"5"', 5_000),
        ("median(a, b, 6) + a /* half */ / 2", 12_000),
        ("1 < b < 6 ? 1 : 2", 1_000),
        ("count([a, b], {# > 6}) > 0 ? 5 : 0", 5_000),
        ("sum([a, b], # * 2)", 34_000),
    ],
)
def test_a_formula_over_numbers(formula: str, expected: int) -> None:
    """Arithmetic, logic and functions give what KEDA's language gives, cut to thousandths."""
    assert milli(formula) == expected


def test_nil_stands_for_a_trigger_in_fallback() -> None:
    """``??`` takes the other side of nil, and binds tighter than any other operator."""
    values = {"a": 12.0, "b": None}

    assert milli("a + (b ?? 30)", values) == 42_000
    assert milli("a + b ?? 30", values) == 42_000
    assert milli("b ?? a ?? 1", values) == 12_000


def test_a_nil_result_is_the_fallbacks_value() -> None:
    """A formula that comes to nil gives the fallback's replicas times the target, if any."""
    assert milli("b ?? nil", {"a": 1.0, "b": None}, nil=60_000) == 60_000
    with pytest.raises(FormulaFailed):
        milli("b ?? nil", {"a": 1.0, "b": None})


def test_a_formula_can_be_copied() -> None:
    """A runtime that is tried ahead on a copy takes its formula along."""
    formula = CompositeFormula(Formula("a + (b ?? 30)", ["a", "b"]), nil_milli=None)

    assert copy.deepcopy(formula).evaluate_milli({"a": 1.0, "b": None}) == 31_000


def test_nil_in_arithmetic_fails() -> None:
    """A nil without ``??`` makes the formula fail instead of counting as zero."""
    with pytest.raises(FormulaFailed):
        milli("a + b", {"a": 1.0, "b": None})
    with pytest.raises(FormulaFailed):
        milli("a + b", {"a": 1.0})


@pytest.mark.parametrize("formula", ["a / 0", "-a / 0", "0 / 0", "a ** 999"])
def test_what_is_no_number_becomes_the_most_negative_integer(formula: str) -> None:
    """Infinity and NaN turn into what a Go program on amd64 makes of them."""
    assert milli(formula) == NO_INTEGER_MILLI


@pytest.mark.parametrize(
    "formula",
    [
        "a.__class__",
        "a['x']",
        "__import__('os')",
        "open('x')",
        "(" * 60 + "a" + ")" * 60,
        "+".join(["a"] * 400),
        "a" + " ?? a" * 300,
        "-" * 1000 + "a",
        "max(" * 60 + "a" + ")" * 60,
        "-(a > b)",
        "abs(a, b)",
        "a + (c ?? 1)",
        "b ?? 1 + a",
    ],
)
def test_nothing_but_small_formulas_over_numbers_is_taken(formula: str) -> None:
    """Members, other functions, wrong types and oversized formulas are refused unevaluated."""
    with pytest.raises((FormulaRefusedError, NotEvaluatedError)):
        Formula(formula, ["a", "b"])


RECORDED = json.loads((Path(__file__).parents[4] / "data" / "scaling_formulas.json").read_text())


def test_recorded_formulas() -> None:
    """Of the 163 that expr-lang took or refused none is answered otherwise; 53 are beyond here."""
    beyond, otherwise = [], []
    for row in RECORDED["rows"]:
        is_refused = False
        try:
            Formula(row["formula"], ["a", "b", "trig_one"])
        except FormulaRefusedError:
            is_refused = True
        except NotEvaluatedError as error:
            beyond.append(str(error))
            continue
        if is_refused is not bool(row["message"]):
            otherwise.append(row["formula"])

    assert otherwise == []
    assert len(beyond) == 53
    assert all(beyond)


def test_nil_is_looked_at_once_and_the_other_side_only_then() -> None:
    """A long chain costs its length, and what stands behind a value is not computed."""
    chain = " ?? ".join(["b"] * 150)

    assert milli(f"{chain} ?? 7", {"a": 1.0, "b": None}) == 7_000
    assert milli("a ?? (b + 1)", {"a": 1.0, "b": None}) == 1_000


SECOND = 1_000_000_000


class Now:
    """A clock that a test sets."""

    def __init__(self, text: str) -> None:
        """Start at an instant in UTC."""
        self.text = text

    def ns(self) -> int:
        """Return the instant in nanoseconds."""
        return int(datetime.fromisoformat(self.text).replace(tzinfo=UTC).timestamp()) * SECOND


def scaler(now: Now, metric_type: str = "AverageValue", **metadata: str) -> CronScaler:
    """Return a scaler of a trigger from 8:00 to 17:30 in Berlin, wanting 5 replicas."""
    given = {
        "timezone": "Europe/Berlin",
        "start": "0 8 * * *",
        "end": "30 17 * * *",
        "desiredReplicas": "5",
        **metadata,
    }
    written = {"type": "cron", "metricType": metric_type, "metadata": given}
    (trigger,) = parse_scaled_object(scaled_object(triggers=[written]), where="f").triggers
    assert isinstance(trigger.parameters, CronTrigger)
    return CronScaler(trigger, trigger.parameters, now.ns)


def test_an_answer_holds_until_the_next_boundary_or_until_the_clock_steps_back() -> None:
    """One scaler is polled around the end of its hours, and then before their start."""
    now = Now("2026-07-01T06:00:00")
    office = scaler(now)
    seen = []
    for at in ("06:00:00", "06:00:01", "15:29:59", "15:30:00", "23:59:59", "05:00:00"):
        now.text = f"2026-07-01T{at}"
        reading = office.read("")
        seen.append((*reading.values, reading.is_active))

    assert seen == [(5.0, True)] * 3 + [(0.0, False)] * 3


def test_the_cached_answer_is_that_of_looking_each_time() -> None:
    """Over the two days around a change of clocks, polled every 10 minutes, nothing differs."""
    now = Now("2026-10-24T00:00:00")
    twice = {"start": "30 2 * * *", "end": "15 3 * * 0,1,6"}
    cached = scaler(now, **twice)
    begin = datetime(2026, 10, 24)  # noqa: DTZ001 - the clock reads it as UTC

    for minutes in range(0, 2 * 24 * 60, 10):
        now.text = (begin + timedelta(minutes=minutes)).isoformat()
        assert cached.read("") == scaler(now, **twice).read(""), now.text


def test_the_metric_counts_replicas_and_its_type_is_the_trigger_s() -> None:
    """So that its target is 1."""
    (spec,) = scaler(Now("2026-07-01T00:00:00"), metric_type="Value").metric_specs()

    assert (spec.target_type, spec.target_milli, spec.kind) == ("Value", 1000, "External")
    assert spec.name == "s0-cron-Europe-Berlin-08xxx-3017xxx"


def test_a_time_zone_that_does_not_exist_fails_the_poll() -> None:
    """KEDA finds a bad time zone only when it polls."""
    with pytest.raises(ScalerFailed, match="Nowhere/City"):
        scaler(Now("2026-07-01T00:00:00"), timezone="Nowhere/City").read("")
