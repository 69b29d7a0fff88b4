"""What a rule decides on a history."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from tests.fakes.lag_samples import at, judged, lags, offsets, rule, window

from lag_scaler.metadata import InvalidMetadata, parse_lag_settings
from lag_scaler.offsets import GroupSample, failed_sample
from lag_scaler.rule import Decision, LagRule, LagUnavailable

AT_ONCE = {"sustain_seconds": 0.0, "lag_threshold": 10}
IN_SECONDS = {"lag_metric": "seconds", "lag_threshold": 10}
# 40 s sustained at 2 s: rates over 5 intervals, 10 s; the window spans 58 s.
PROJECTED = {"lag_metric": "projected", "sustain_seconds": 40.0}


def every_2_seconds(*each: int | Sequence[int], since: float = 0) -> list[GroupSample]:
    """Return a sample for each of the lags (of one partition, or of several)."""
    rows = [[one] if isinstance(one, int) else one for one in each]
    return [lags(since + 2 * number, *row) for number, row in enumerate(rows)]


def decisions(each: Sequence[int], **changes: Any) -> list[Decision]:
    """Return the decision after each of the lags (of partition 0 of 24), 2 s apart."""
    chosen = rule(**changes)
    over = window(chosen)
    watched = over.watch(chosen)
    result = []
    for number, lag in enumerate(each):
        over.add(lags(2 * number, lag, *[0] * 23))
        result.append(watched.decide(at(2 * number)))
    return result


LASTING = every_2_seconds(*[600] * 11)  # 20 s, up to the newest sample
TWO_AFTER_ANOTHER = [(600 if n < 6 else 0, 600 if n >= 5 else 0) for n in range(15)]
MOVING = [[12_000 if n // 6 % 24 == place else 0 for place in range(24)] for n in range(36)]


@pytest.mark.parametrize(
    ("samples", "changes", "is_persistent"),
    [
        (LASTING, {}, True),
        (LASTING[:-1], {}, False),
        (every_2_seconds(*[499] * 11), {}, False),
        (every_2_seconds(*[500] * 11), {}, True),  # at or above
        ([lags(0, 600)], {"sustain_seconds": 0}, True),
        # a stretch that ended does not count, nor does a spike after it
        ([*LASTING, lags(22, 0)], {}, False),
        ([*LASTING, lags(22, 0), *every_2_seconds(*[900] * 9, since=24)], {}, False),
        # met within half an interval: samples come late and early
        ([*LASTING[:9], lags(18.9, 600)], {}, False),
        ([*LASTING[:9], lags(19.0, 600)], {}, True),
        ([lags(0.003 if n == 0 else 2 * n - 0.004, 600) for n in range(11)], {}, True),
        # up to 2.5 intervals may pass without a sample
        ([*LASTING[:9], lags(21, 600)], {}, True),
        ([*LASTING[:9], lags(21.001, 600)], {}, False),
        ([*LASTING, *every_2_seconds(*[600] * 10, since=28)], {}, False),
        ([*LASTING, *every_2_seconds(*[600] * 11, since=28)], {}, True),
        # each partition has its own stretch
        (every_2_seconds(*TWO_AFTER_ANOTHER), {}, False),
        (every_2_seconds(*[[400] * 24] * 11), {}, False),
        (every_2_seconds(*[[400] * 24] * 11), {"lag_scope": "total"}, True),
        (every_2_seconds(*MOVING), {}, False),
        (every_2_seconds(*MOVING), {"lag_scope": "total"}, True),
        # the topic grows, by partitions at the end and between
        ([*LASTING[:6], *every_2_seconds(*[(600, 0, 0)] * 5, since=12)], {}, True),
        # a failover cut off 50 records; 600 still wait, and did all the time
        (
            [offsets(2 * n, [5000 - 50 * (n > 5)], [4400 - 50 * (n > 5)]) for n in range(11)],
            {},
            True,
        ),
        (
            [offsets(2 * n, [10**6 * n], [max(0, 10**6 * (n - 1))]) for n in range(20)],
            IN_SECONDS,
            False,
        ),
    ],
)
def test_lag_persists_once_its_stretch_spans_the_sustain_time(
    samples: list[GroupSample], changes: dict[str, Any], is_persistent: bool
) -> None:
    """20 s at 500 or more, sampled every 2 s, without a gap."""
    decision = judged(samples, rule(**changes))

    assert decision.is_persistent is is_persistent
    assert decision.is_active is is_persistent
    assert (decision.metric_value > 0) is is_persistent


def test_a_stretch_is_known_by_its_partition_and_its_whole_length() -> None:
    """Whatever the window holds, and whichever partitions come between."""
    samples = [lags(2 * n, 0, 600, partitions=[0, 2]) for n in range(6)]
    grown = [lags(2 * n, 0, 600, 0, partitions=[0, 1, 2]) for n in range(6, 11)]

    assert judged([*samples, *grown]).stretch_partition == 1
    assert judged([*samples, *grown]).span_seconds == 8
    assert judged(every_2_seconds(*TWO_AFTER_ANOTHER)).stretch_partition == 1
    assert judged(every_2_seconds(*[600] * 101)).span_seconds == 200


def test_an_outage_is_a_gap_and_not_a_decision() -> None:
    """Failed reads leave the last decision for 2.5 intervals, then there is none."""
    over = window()
    watched = over.watch(rule())
    with pytest.raises(LagUnavailable):
        watched.decide(at(0))
    over.add(failed_sample(at(-2), "refused"))
    with pytest.raises(LagUnavailable, match="refused"):
        watched.decide(at(0))
    for sample in LASTING:
        over.add(sample)
    assert not over.add(failed_sample(at(22), "refused"))

    assert watched.decide(at(25)).is_persistent
    for seconds in (25.1, 14.9):  # and a clock that was set back
        with pytest.raises(LagUnavailable, match=r"s old.*refused"):
            watched.decide(at(seconds))


@pytest.mark.parametrize(("limit", "is_active"), [(600, False), (599, True)])
def test_activation_needs_persistent_lag_above_its_own_limit(limit: int, is_active: bool) -> None:
    """600 persistent records do not activate an object whose activationLagThreshold is 600."""
    decision = judged(LASTING, rule(activation_lag_threshold=limit))

    assert (decision.is_active, decision.metric_value) == (is_active, 500)


@pytest.mark.parametrize(
    ("each", "changes", "metric"),
    [
        ((500, 0), {}, 20),
        ((500, 0), {"allow_idle_consumers": True}, 500),
        ((12_000, *[0] * 23), {"limit_to_partitions_with_lag": True}, 10),
        ((50, 50, 0), {"limit_to_partitions_with_lag": True}, 20),
        # 10 partitions are divided evenly by 1, 2, 5 or 10 replicas
        *[
            ((total, *[0] * 9), {"ensure_even_distribution_of_partitions": True}, metric)
            for total, metric in ((10, 10), (11, 20), (20, 20), (21, 50), (51, 100), (500, 100))
        ],
        ((0, 99, 15, 0, 99), {"partition_limitation": (1, 2)}, 20),
        ((99, 5, 10, 99), {"partition_limitation": (1, 2)}, 15),
    ],
)
def test_the_metric_is_capped(each: Sequence[int], changes: dict[str, Any], metric: float) -> None:
    """By partitions, by those with lag, to a divisor; only limited partitions count."""
    assert judged([lags(0, *each)], rule(**AT_ONCE, **changes)).metric_value == metric


@pytest.mark.parametrize("total", [*range(10, 60), 10**5])
def test_the_cap_never_asks_for_more_replicas_than_partitions(total: int) -> None:
    """KEDA's cap lets 39 records on 3 partitions with threshold 10 ask for 4 replicas."""
    metric = judged([lags(0, total, 0, 0)], rule(**AT_ONCE)).metric_value

    assert math.ceil(metric / 10) == min(math.ceil(total / 10), 3)


EARLIEST = {"offset_reset_policy": "earliest"}
ZERO = {"scale_to_zero_on_invalid_offset": True}
WAKES = {**ZERO, "wakes_for_backlog": True}


@pytest.mark.parametrize(
    ("samples", "changes", "lag"),
    [
        ([offsets(0, [1000], [-1], earliest=[0])], {}, 1),  # as in KEDA
        ([offsets(0, [1000], [-1001], earliest=[0])], {}, 1),  # librdkafka's "no offset"
        ([offsets(0, [1000], [-1], earliest=[0])], ZERO, 0),
        ([offsets(0, [1000], [-1], earliest=[0])], {**ZERO, **EARLIEST}, 0),
        ([offsets(0, [1000], [-1], earliest=[400])], EARLIEST, 600),
        ([offsets(0, [1000], [-1], earliest=[1000])], EARLIEST, 0),
        # a log start once known serves later samples; a topic made anew forgets it
        ([offsets(0, [1000], [-1], earliest=[900]), offsets(2, [1500], [-1])], EARLIEST, 600),
        (
            [offsets(0, [1000], [-1], earliest=[900]), offsets(2, [200], [-1], earliest=[0])],
            EARLIEST,
            200,
        ),
        # Iggy wakes for a backlog and for nothing else, whatever the policy
        ([offsets(0, [1000], [-1], earliest=[0])], WAKES, 1000),
        ([offsets(0, [1000], [-1], earliest=[0])], {**WAKES, **EARLIEST}, 1000),
        ([offsets(0, [1000], [-1], earliest=[1000])], WAKES, 0),
        # expired records are no backlog; a commit ahead of the end is no lag
        ([offsets(0, [2000], [500], earliest=[1500])], {}, 500),
        ([offsets(0, [100], [103])], {}, 0),
    ],
)
def test_the_lag_is_what_can_still_be_read(
    samples: list[GroupSample], changes: dict[str, Any], lag: int
) -> None:
    """Without a commit the policy says what that is."""
    assert judged(samples, rule(**changes)).figures.total_lag == lag


@pytest.mark.parametrize(
    ("sample", "changes", "reason"),
    [
        (offsets(0, [1000], [-1]), EARLIEST, "partition 0"),
        (offsets(0, [1000], [-1], earliest=[-1]), EARLIEST, "partition 0"),
        (lags(0, 99), {"partition_limitation": (7,)}, "partitionLimitation"),
    ],
)
def test_an_unknown_lag_is_no_decision(
    sample: GroupSample, changes: dict[str, Any], reason: str
) -> None:
    """Missing is not zero, and not all either."""
    with pytest.raises(LagUnavailable, match=reason):
        judged([sample], rule(**changes))


def test_commits_that_do_not_move_are_left_out_of_the_metric() -> None:
    """excludePersistentLag: more replicas do not help a stuck consumer, but it stays active."""
    samples = [offsets(2 * n, [5000, 9000], [1000, 8000 + n]) for n in range(11)]

    decision = judged(samples, rule(exclude_persistent_lag=True))

    assert (decision.metric_value, decision.figures.total_lag) == (990, 4990)
    assert decision.is_active


@pytest.mark.parametrize(
    ("each", "changes", "metrics", "active"),
    [
        # held for the three samples after the drain
        (
            (600, 800, 700, 0, 0, 0, 0, 0),
            {"scale_down_stabilization_seconds": 6},
            (600, 800, 800, 800, 800, 700, 0, 0),
            "yyyyyynn",
        ),
        # a value counts once two more samples were as high; falling is at once
        (
            (0, 900, 700, 800, 900, 0, 900),
            {"scale_up_stabilization_seconds": 4},
            (0, 0, 0, 700, 700, 0, 0),
            "nnnyynn",
        ),
        ((600, 0, 600), {}, (600, 0, 600), "yny"),
    ],
)
def test_the_metric_and_activity_are_stabilised(
    each: Sequence[int], changes: dict[str, Any], metrics: Sequence[int], active: str
) -> None:
    """It rises to the lowest and falls to the highest of the recent values."""
    got = decisions(each, sustain_seconds=0, **changes)

    assert tuple(one.metric_value for one in got) == tuple(metrics)
    assert "".join("ny"[one.is_active] for one in got) == active


def steady(count: int, *, behind: int) -> list[GroupSample]:
    """Return samples of 100 records per second, the commit ``behind`` records late."""
    ends = [10_000 + 200 * number for number in range(count)]
    return [offsets(2 * n, [end], [end - behind]) for n, end in enumerate(ends)]


@pytest.mark.parametrize(
    ("samples", "seconds", "is_bound"),
    [
        *[(steady(15, behind=behind), behind / 100, False) for behind in (0, 1, 250, 1999)],
        (steady(5, behind=5000), 8, True),  # at least as old as the window
        # the oldest partition counts
        (
            [offsets(2 * n, [100 * (n + 1)] * 2, [min(100 * (n + 1), 500), 300]) for n in range(6)],
            6,
            False,
        ),
        # a message after a quiet time is at most one interval old
        ([*[offsets(2 * n, [50], [50]) for n in range(28)], offsets(56, [51], [50])], 2, False),
        # the end went 1000, 1200, 1400 and back to 1100: 1050 was written after 1 s
        (
            [offsets(2 * n, [e], [min(e, 1050)]) for n, e in enumerate((1000, 1200, 1400, 1100))],
            5,
            False,
        ),
    ],
)
def test_the_age_is_when_the_committed_offset_was_the_end(
    samples: list[GroupSample], seconds: float, is_bound: bool
) -> None:
    """Linear between two samples."""
    figures = judged(samples, rule(**IN_SECONDS)).figures

    assert (figures.oldest_age_ns or 0) / 1e9 == pytest.approx(seconds, abs=1e-6)
    assert figures.is_age_a_bound is is_bound


def test_the_rule_and_the_metric_are_in_seconds() -> None:
    """12 s behind, threshold 10 s; the ages look back over the rule's own window."""
    samples = [offsets(2 * n, [10_000 + 200 * n], [8_800 + 200 * n]) for n in range(20)]
    decision = judged(samples, rule(**IN_SECONDS))
    assert (decision.is_persistent, decision.metric_value) == (True, 10)
    assert decision.uncapped_metric == pytest.approx(12.0)
    unread = [offsets(2 * n, [100 * (n + 1)], [-1], earliest=[300]) for n in range(6)]
    assert judged(unread, rule(**IN_SECONDS, **EARLIEST)).figures.oldest_age_ns == 6 * 10**9

    short = rule(**IN_SECONDS, window_size=12)
    over = window(short)
    over.watch(rule(window_size=30))
    watched = over.watch(short)
    for sample in steady(30, behind=9000):
        over.add(sample)
    assert watched.decide(at(58)).figures.oldest_age_ns == 22_000_000_000

    named = {"bootstrapServers": "b:9092", "topic": "t", "consumerGroup": "g"}
    with pytest.raises(InvalidMetadata, match="280"):
        parse_lag_settings({**named, "lagMetric": "seconds", "lagThreshold": "281"})


@pytest.mark.parametrize(
    ("each", "early_at"),
    [
        ([0] * 10 + [600 * n for n in range(1, 30)], 30),  # 10 s of evidence, not 40 s
        ([0] * 5 + [max(0, 5000 - 300 * n) for n in range(30)], None),  # drained in time
        ([5000 - 100 * n for n in range(10)], 10),  # falls too slowly
        ([0] * 10 + [3000, 6000, 9000, 9000] + [0] * 10, None),  # shorter than the evidence
    ],
)
def test_lag_that_cannot_be_drained_in_time_counts_early(
    each: list[int], early_at: int | None
) -> None:
    """LagMetric projected: at the measured rates the stretch would last 40 s."""
    got = decisions(each, **PROJECTED)
    found = [2 * n for n, one in enumerate(got) if one.is_persistent or one.is_early]

    assert (found or [None])[0] == early_at


@pytest.mark.parametrize(("spike", "early_at"), [(range(30, 36), None), (range(30, 60), 35)])
def test_a_burst_is_waited_out_and_a_step_that_stays_is_not(
    spike: range, early_at: int | None
) -> None:
    """At the usual in-rate of 400/s, pods that do 1,000/s drain 12 s of 1,500/s before 40 s."""
    by = rule(**PROJECTED, lag_scope="total")
    over = window(by)
    watched = over.watch(by)
    end = committed = 0
    early = []
    for number in range(60):
        end += (3000 if len(spike) == 6 else 8000) if number in spike else 800
        committed = min(end, committed + 2000)
        over.add(offsets(2 * number, [end], [committed]))
        decision = watched.decide(at(2 * number))
        early += [number] if decision.is_early or decision.is_persistent else []

    assert (early or [None])[0] == early_at


def test_an_early_stretch_counts_until_it_ends_and_its_growth_is_projected() -> None:
    """The pods that it asked for drain the backlog: that takes nothing back before it is gone."""
    up = [600 * number for number in range(1, 11)]
    down = [6000 - 700 * number for number in range(1, 8)]

    got = decisions([*up, *down, 400], **PROJECTED)

    assert all(one.is_early for one in got[6:-1])
    assert (got[-1].is_early, got[-1].metric_value) == (False, 0)
    assert got[9].uncapped_metric == pytest.approx(6000 + 300 * 58)  # growing by 300/s
    growth = got[9].growth
    assert growth is not None
    assert growth.in_per_second == pytest.approx(24_000)  # 24 partitions grow by 1,000 each
    assert (growth.per_second, growth.over_seconds) == (pytest.approx(300), 10)
    shrinking = decisions([9000 - 10 * n for n in range(25)], **PROJECTED)
    assert shrinking[-1].metric_value == 9000 - 240
    assert shrinking[4].growth is None  # five samples are four intervals


def test_the_defaults_are_those_of_the_readmes_and_a_rule_holds_no_secret() -> None:
    """500 records for 120 s, 30 samples at 10 s, any partition; it is a key of snapshots."""
    usual = LagRule()

    assert (usual.lag_threshold, usual.sustain_seconds) == (500, 120)
    assert (usual.sampling_interval_seconds, usual.window_size) == (10, 30)
    assert (usual.lag_scope, usual.lag_metric) == ("partition", "records")
    assert hash(usual) == hash(LagRule())
    assert not {"password", "username", "bootstrap_servers"} & set(LagRule.model_fields)


def test_a_call_computes_nothing() -> None:
    """The decision is the same object from one sample to the next, whatever the partitions."""
    chosen = rule(window_size=2000)
    over = window(chosen)
    watched = over.watch(chosen)
    over.add(lags(4, *np.arange(2400).tolist()))

    assert watched.decide(at(4)) is watched.decide(at(5))
