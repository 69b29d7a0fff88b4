"""The content of accounting.json."""

from __future__ import annotations

from bench_spark.causes import CauseFinder
from bench_spark.fence import Fence
from bench_spark.run_facts import RunFacts
from bench_spark.totals import BadCount, Counts, LogPart, totals


def _facts(**changes: int | None) -> RunFacts:
    known: dict[str, int | None] = {"planned": 20, "acked": 20, "failed": 0, "unknown": 0} | changes
    return RunFacts(**known, assignments=[], commits_moved_back=0, causes=CauseFinder({}, {}, {}))


def _fence(events: dict[int, int]) -> Fence:
    return Fence(events=events, processed={}, telemetry={}, committed={}, stream_started_at=None)


def _counts(log: dict[int, LogPart], bad: list[BadCount]) -> Counts:
    return Counts(
        log=log,
        processed_by_pod={"b": 5, "a": 15},
        duplicated_messages=1,
        time_lag_seconds={"p50": 0.1},
        bad=bad,
    )


def test_distinct_leaves_out_repeats_and_strangers() -> None:
    """What was processed once is everything minus repeats and unknown messages."""
    bad = [BadCount("duplicated", "killed", "b", 2), BadCount("unknown_message", "none", "a", 1)]

    content = totals(_counts({0: LogPart(20, 0)}, bad), _facts(), _fence({0: 20}))

    assert content["processed_records"] == 20
    assert content["processed_distinct"] == 17
    assert content["by_pod"] == {
        "a": {"processed": 15, "duplicated": 0},
        "b": {"processed": 5, "duplicated": 2},
    }
    assert content["by_cause"] == {"killed": 2, "none": 1}
    assert content["lost"] == 0


def test_failed_deliveries_excuse_absent_seqs() -> None:
    """As many absent seqs as deliveries failed are the producer's, the rest is the broker's."""
    bad = [BadCount("not_in_log", "none", None, 3)]

    content = totals(_counts({0: LogPart(17, 0)}, bad), _facts(acked=18, failed=2), _fence({0: 17}))

    assert content["not_in_log"] == 1
    assert content["not_in_log_excused"] == 2
    assert content["produced_failed"] == 2


def test_expired_offsets_are_told_from_holes() -> None:
    """Offsets before the log's start are expired; absent ones after it are holes."""
    log = {0: LogPart(10, 5), 1: LogPart(8, 0)}

    content = totals(_counts(log, []), _facts(), _fence({0: 15, 1: 10, 2: 4}))

    assert content["expired"] == 5 + 4
    assert content["log_holes"] == 2
    assert content["partition_counts"] == {"0": 10, "1": 8, "2": 0}


def test_empty_log_has_no_hottest_partition() -> None:
    """A share of nothing is unknown."""
    content = totals(_counts({}, []), _facts(acked=None), _fence({0: 0}))

    assert content["hottest_partition_share"] is None
    assert content["produced_acked"] is None
