"""The content of accounting.json."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from lagbench.core.clocks import ONE_CLOCK
from lagbench.core.ownership.causes import CauseFinder
from lagbench.core.ownership.holdings import Holdings
from lagbench.core.ownership.run_facts import RunFacts, StreamPlan
from lagbench_spark.fence import Fence
from lagbench_spark.totals import BadCount, Counts, LogPart, totals


def _facts(**changes: Any) -> RunFacts:
    known: dict[str, Any] = {"planned": 20, "acked": 20, "failed": 0, "unknown": 0}
    known |= {"failed_seqs": [], "unknown_seqs": []} | changes
    return RunFacts(
        **known,
        plan=StreamPlan(20, None, None),
        first_partitions=None,
        producer=None,
        clocks=ONE_CLOCK,
        holdings=Holdings([], []),
        kills={},
        causes=CauseFinder({}, {}, {}),
        strangers=0,
    )


def _fence(events: dict[int, int]) -> Fence:
    return Fence(events=events, processed={}, telemetry={}, committed={}, stream_started_at=None)


def _counts(log: dict[int, LogPart], bad: list[BadCount], **more: Any) -> Counts:
    return Counts(
        log=log,
        processed_by_pod={"b": 5, "a": 15},
        duplicated_messages=1,
        time_lag=({"p50": 0.1}, None),
        bad=bad,
        **more,
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


def test_failed_deliveries_whose_seqs_are_reported_excuse_no_other() -> None:
    """Two failed and are absent by identity; a third absent one was acknowledged."""
    bad = [BadCount("not_in_log", "none", None, 1), BadCount("not_in_log_failed", "none", None, 2)]
    facts = _facts(acked=18, failed=2, failed_seqs=[(3, 4)])

    content = totals(_counts({0: LogPart(17, 0)}, bad), facts, _fence({0: 17}))

    assert (content["not_in_log"], content["not_in_log_failed"]) == (1, 2)
    assert content["not_in_log_excused"] == 0


def test_failed_deliveries_without_identity_are_excused_by_their_number_only() -> None:
    """As many absent seqs as deliveries failed may be those; every further one is the broker's."""
    bad = [BadCount("not_in_log", "none", None, 3)]
    facts = _facts(acked=18, failed=2, failed_seqs=None)

    content = totals(_counts({0: LogPart(17, 0)}, bad), facts, _fence({0: 17}))

    assert content["not_in_log"] == 1
    assert content["not_in_log_excused"] == 2
    assert content["produced_failed"] == 2


def test_strangers_are_in_the_log_and_in_no_other_class() -> None:
    """Three foreign records, two of them processed: neither lost nor processed messages."""
    bad = [BadCount("foreign", "none", None, 3)]
    counts = _counts(
        {0: LogPart(20, 0)},
        bad,
        foreign_log={0: LogPart(2, 20), 1: LogPart(1, 4)},
        processed_foreign=2,
    )

    content = totals(counts, _facts(), _fence({0: 22, 1: 5}))

    assert (content["in_log"], content["foreign"]) == (23, 3)
    assert (content["processed_records"], content["processed_distinct"]) == (20, 18)
    assert content["partition_counts"] == {"0": 22, "1": 1}
    assert (content["expired"], content["log_holes"]) == (4, 0)


def test_expired_offsets_are_distinguished_from_holes() -> None:
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


def test_what_committed_offsets_do_not_show_is_unknown_not_zero() -> None:
    """Without a ledger no message is lost or processed: the counts are null."""
    fence = replace(_fence({0: 20}), accounting="commits")

    content = totals(
        replace(_counts({0: LogPart(20, 0)}, []), processed_by_pod={}), _facts(), fence
    )

    for name in ("lost", "duplicated", "reordered", "zombie", "failed", "processed_distinct"):
        assert content[name] is None, name
    assert content["outside_run"] is None
    assert (content["in_log"], content["not_in_log"], content["log_holes"]) == (20, 0, 0)


def test_an_output_topic_does_not_show_owners() -> None:
    """Lost and repeated are counted; two owners at once are not known."""
    fence = replace(_fence({0: 20}), accounting="output")

    content = totals(_counts({0: LogPart(20, 0)}, []), _facts(), fence)

    assert (content["lost"], content["duplicated"]) == (0, 0)
    assert (content["zombie"], content["zombie_in_doubt"], content["failed"]) == (None, None, None)
