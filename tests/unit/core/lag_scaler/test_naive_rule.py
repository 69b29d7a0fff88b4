"""The incremental evaluation equals the rule's text, on random histories."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.fakes.lag_samples import at, offsets, window
from tests.fakes.naive_lag_rule import NaiveDecision, NaiveRule, Row

from lagbench.core.lag_scaler.lag_rule import Decision, LagRule
from lagbench.core.lag_scaler.lag_source import failed_sample
from lagbench.core.lag_scaler.lag_window import GroupWindow, restore_window, save_window

# Interval 2 s: steps of up to 5 s keep a stretch, longer ones end it.
STEPS_MS = st.sampled_from([1500, 1900, 2000, 2000, 2000, 2100, 4000, 5000, 5001, 9000])
RULES = st.builds(
    LagRule,
    lag_threshold=st.sampled_from([1, 5, 10, 25]),
    activation_lag_threshold=st.sampled_from([0, 12]),
    sustain_seconds=st.sampled_from([0.0, 1.0, 6.0, 12.0]),
    sampling_interval_seconds=st.just(2.0),
    window_size=st.sampled_from([7, 9, 30]),
    scale_up_stabilization_seconds=st.sampled_from([0.0, 0.0, 4.0]),
    scale_down_stabilization_seconds=st.sampled_from([0.0, 0.0, 6.0]),
    lag_scope=st.sampled_from(["partition", "total"]),
    lag_metric=st.sampled_from(["records", "records", "seconds", "projected"]),
    offset_reset_policy=st.sampled_from(["latest", "earliest"]),
    scale_to_zero_on_invalid_offset=st.booleans(),
    exclude_persistent_lag=st.booleans(),
    partition_limitation=st.sampled_from([None, None, (0, 2), (1,)]),
    limit_to_partitions_with_lag=st.booleans(),
    allow_idle_consumers=st.booleans(),
    ensure_even_distribution_of_partitions=st.booleans(),
).filter(
    lambda rule: (
        not (
            rule.limit_to_partitions_with_lag
            and (rule.allow_idle_consumers or rule.ensure_even_distribution_of_partitions)
        )
    )
)
PARTITIONS = 3


@st.composite
def histories(draw: st.DrawFn) -> list[Row | None]:
    """Draw rows of growing offsets; None stands for a read that failed."""
    rows: list[Row | None] = []
    at_ms = 0
    end = [draw(st.integers(0, 30)) for _ in range(PARTITIONS)]
    commit = list(end)
    start = [0] * PARTITIONS
    if draw(st.booleans()):
        commit[draw(st.integers(0, PARTITIONS - 1))] = -1
    for _ in range(draw(st.integers(1, 18))):
        at_ms += draw(STEPS_MS)
        for number in range(PARTITIONS):
            end[number] += draw(st.sampled_from([0, 0, 3, 10, 30]))
            if commit[number] >= 0 or draw(st.integers(0, 9)) == 0:
                behind = end[number] - max(commit[number], 0)
                done = draw(st.sampled_from([0, 0.3, 1.0, 1.0]))
                commit[number] = max(commit[number], 0) + round(behind * done)
            if draw(st.integers(0, 9)) == 0:
                start[number] = draw(st.integers(start[number], end[number]))
        if draw(st.integers(0, 7)) == 0:
            rows.append(None)
        else:
            rows.append((at_ms, list(end), list(commit), list(start)))
    return rows


def agree(decision: Decision, expected: NaiveDecision) -> None:
    """Compare; ages and projections are floats, rounded to nanoseconds by the window."""
    assert (decision.is_persistent or decision.is_early) == expected.is_persistent
    assert decision.metric_value == pytest.approx(expected.metric, abs=1e-6)
    assert decision.is_active == expected.is_active


@settings(max_examples=50)
@given(
    st.lists(RULES, min_size=1, max_size=3, unique=True), histories(), st.sets(st.integers(0, 24))
)
def test_the_incremental_evaluation_equals_the_text(
    rules: list[LagRule], rows: list[Row | None], restarts: set[int]
) -> None:
    """Several rules on one window decide as the naive rule does, across restarts as well."""
    over = window(rules[0])
    naive = [NaiveRule(rule) for rule in rules]
    for rule in rules:
        over.watch(rule)
    now_ns = at(0)

    for index, row in enumerate(rows):
        if row is None:
            over.add(failed_sample(now_ns + 1, "the broker is away"))
            continue
        now_ns = at(row[0] / 1000)
        if index in restarts and over.newest_at_ns is not None:
            over = restarted(over)
        over.add(offsets(row[0] / 1000, row[1], row[2], earliest=row[3]))
        for one in naive:
            agree(over.watch(one.rule).decide(now_ns), one.add(row))


def restarted(over: GroupWindow) -> GroupWindow:
    """Return the window after a restart right after its newest sample."""
    return restore_window(
        save_window(over),
        identity=over.identity,
        interval_seconds=over.interval_seconds,
        now_ns=over.newest_at_ns or 0,
    )


@settings(max_examples=50)
@given(
    st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20)), min_size=1, max_size=20),
    st.sampled_from([5, 10]),
    st.sampled_from(["partition", "total"]),
)
def test_a_rule_that_comes_late_sees_the_samples_kept(
    series: list[tuple[int, int]], threshold: int, scope: str
) -> None:
    """A rule added at the end has the stretch that it would have had from the beginning."""
    late = LagRule(
        lag_threshold=threshold,
        lag_scope=scope,
        sampling_interval_seconds=2.0,
        sustain_seconds=10.0,
    )
    other = late.model_copy(update={"lag_threshold": 3})
    first, second = window(late), window(late)
    first.watch(late)
    second.watch(other)

    for number, lag in enumerate(series):
        sample = offsets(2.0 * number, [100, 100], [100 - one for one in lag])
        first.add(sample)
        second.add(sample)

    now_ns = at(2.0 * (len(series) - 1))
    assert second.watch(late).decide(now_ns) == first.watch(late).decide(now_ns)
    assert np.array_equal(second.history.end(), first.history.end())
