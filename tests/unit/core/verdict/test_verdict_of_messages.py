"""What the verdict makes of messages that the log lacks, or that nobody can place."""

from __future__ import annotations

from typing import Any

import pytest
from tests.fakes.measured_run import changed, quick_spike_measures, result

from lagbench.core.measures.accounting.accounting import (
    BadMessageGroup,
    UnknownOwnership,
    UnledgeredWork,
)
from lagbench.core.measures.measures import Measures
from lagbench.core.scenario.consumer_kinds import level_of
from lagbench.core.scenario.slo_limits import Slos
from lagbench.core.verdict.verdict import judge

GOOD = quick_spike_measures()
SLOS = Slos(drain_seconds=120)
ACKED = GOOD.accounting.produced_acked or 0


def absent(count: int, **fields: Any) -> dict[str, Any]:
    """Return the counts of a run in which the log lacks ``count`` messages."""
    found = GOOD.accounting
    less = {"in_log": found.in_log, "processed_distinct": found.processed_distinct}
    return {name: (of or 0) - count for name, of in less.items()} | fields


@pytest.mark.parametrize(
    ("fields", "status", "value"),
    [
        # All that is in the log was processed, and still 9,000 acknowledged messages are gone.
        (absent(9_000, not_in_log=9_000, lost_in_broker=9_000), "fail", 9_000),
        ({"lost": 2, "lost_in_broker": 2}, "fail", 4),
        # Nobody can know whether what is gone was lost.
        ({"expired": 5, "not_in_log": 5}, "undetermined", 0),
        ({"log_holes": 2}, "undetermined", 0),
        ({"produced_acked": None, "lost_in_broker": None}, "undetermined", 0),
        ({"not_in_log_unknown": 1}, "undetermined", 0),
        ({"expired": None, "lost_in_broker": None}, "undetermined", 0),
        ({"unknown_message": 1}, "undetermined", 0),  # it may be a repeat of any
        # Two outcomes are unknown to the producer, and the log lacks none.
        ({"produced_unknown": 2, "produced_acked": ACKED - 2}, "pass", 0),
        # The producer named the seven that the log lacks as rejected.
        (
            absent(7, produced_failed=7, produced_acked=ACKED - 7, not_in_log_failed=7),
            "pass",
            0,
        ),
        # Ten failed and ten are absent: whether they are the same ten nobody can tell.
        (
            absent(10, produced_failed=10, produced_acked=ACKED - 10, not_in_log_excused=10),
            "undetermined",
            0,
        ),
        # Twelve are absent and ten failed: two were acknowledged, whichever they are.
        (absent(12, not_in_log=2, lost_in_broker=2, not_in_log_excused=10), "fail", 2),
        ({"in_log": 0, "processed_distinct": 0}, "undetermined", 0),  # none can be lost
    ],
)
def test_a_loss_is_proven_excluded_or_not_known(
    fields: dict[str, Any], status: str, value: int
) -> None:
    """Finding none proves something only where the log accounts for every message."""
    verdict = judge(changed("accounting", **fields), SLOS)

    found = result(verdict, "lost")
    assert (found.status, found.value) == (status, value)
    assert status in ("pass", verdict.status)


@pytest.mark.parametrize("fields", [{"unknown_message": 1}, {"in_log": 0, "processed_distinct": 0}])
def test_without_knowing_the_messages_no_class_is_settled(fields: dict[str, int]) -> None:
    """A processing of no known message may be of any; an empty log proves nothing."""
    verdict = judge(changed("accounting", **fields), SLOS)

    names = ("lost", "duplicated", "reordered", "zombies")
    assert {result(verdict, name).status for name in names} == {"undetermined"}


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("zombies", {"zombie_in_doubt": 4}),
        ("reordered", {"reordered_in_doubt": 4}),
        ("zombies", {"unbounded_pods": ("consumer-01",)}),
        ("reordered", {"unbounded_pods": ("consumer-01",)}),
        (
            "zombies",
            {
                "unknown_ownership": (
                    UnknownOwnership(pod="consumer-01", from_at=1, until_at=2, partitions=(3,)),
                )
            },
        ),
    ],
)
def test_what_two_clocks_cannot_decide_is_undetermined(name: str, fields: dict[str, Any]) -> None:
    """None is certain, some may be: neither pass nor fail."""
    verdict = judge(changed("accounting", **fields), SLOS)

    assert (verdict.status, result(verdict, name).status) == ("undetermined", "undetermined")


def test_doubt_below_the_limit_is_none() -> None:
    """One is certain and two are in doubt: a limit of 3 holds in any case, one of 2 may not."""
    run = changed("accounting", zombie=1, zombie_in_doubt=2)

    assert result(judge(run, Slos(zombies=3)), "zombies").status == "pass"
    found = result(judge(run, Slos(zombies=2)), "zombies")
    assert (found.status, found.low, found.high) == ("undetermined", 1, 3)
    assert result(judge(run, Slos(zombies=0)), "zombies").status == "fail"


@pytest.mark.parametrize(
    ("messages", "named"), [((800,), "at most 800 more"), ((800, None), "an unknown number more")]
)
def test_double_processing_is_judged_by_the_ledger_and_says_what_it_cannot_know(
    messages: tuple[int | None, ...], named: str
) -> None:
    """A killed pod may have done messages more: the SLO holds and states their bound."""
    started_at = GOOD.load.stream_started_at or 0
    killed = tuple(
        UnledgeredWork(
            pod=f"consumer-{number}",
            killed_at=started_at + 30_000_000_000,
            seconds=0.2,
            messages=count,
        )
        for number, count in enumerate(messages)
    )

    found = result(judge(changed("accounting", unledgered=killed), SLOS), "duplicated")

    assert found.status == "pass"
    for text in (named, "consumer-0", "0.20 s", "+10.0 s"):
        assert text in found.reason


def test_an_accounting_that_contradicts_itself_leaves_the_run_undetermined() -> None:
    """Every SLO holds, but messages are in the log twice: the load differed from the plan."""
    acked = (GOOD.accounting.produced_acked or 0) - 3
    verdict = judge(changed("accounting", produced_twice=3, produced_acked=acked), SLOS)

    assert verdict.status == "undetermined"
    assert "undetermined" not in {slo.status for slo in verdict.slos}


def test_a_cut_list_of_bad_messages_is_named_as_such() -> None:
    """The table lists 100,000 of 250,000: its pod's count is not the whole."""
    (listed,) = given_up(100_000, 0, None).accounting.bad_messages
    groups = (listed.model_copy(update={"message_class": "duplicated"}),)

    found = result(
        judge(changed("accounting", duplicated=250_000, bad_messages=groups), SLOS), "duplicated"
    )

    assert (found.status, found.value) == ("fail", 250_000)
    assert "100,000 of 250,000" in found.reason


def given_up(failed: int, by_plan: int | None, poisoned: int | None) -> Measures:
    """Return the run with messages that a pod gave up."""
    group = BadMessageGroup(
        message_class="failed",
        pod="consumer-03",
        other_pod=None,
        cause="none",
        cause_pod=None,
        count=failed,
        partitions=(4,),
        first_at=None,
    )
    processed = GOOD.accounting.processed_distinct
    assert processed is not None
    return changed(
        "accounting",
        failed=failed,
        failed_by_plan=by_plan,
        poisoned=poisoned,
        processed_distinct=processed - failed,
        bad_messages=(group,) if failed else (),
    )


@pytest.mark.parametrize(
    ("given_up_of", "status", "value", "named"),
    [
        ((12, 12, 12), "pass", 0, "12 of 12"),  # neither lost nor processed
        ((2, 0, None), "fail", 2, "consumer-03"),
        ((14, 12, 12), "fail", 2, "consumer-03"),
        ((10, 10, 12), "undetermined", 0, "10 of 12"),  # poison that did not act: another run
        ((200_000, None, 12), "undetermined", None, ""),  # which they were is not known
    ],
)
def test_messages_fail_as_the_poison_plans(
    given_up_of: tuple[int, int | None, int | None], status: str, value: int | None, named: str
) -> None:
    """Given up, of them by plan, and poisoned: no message beside the poison may fail."""
    verdict = judge(given_up(*given_up_of), SLOS)

    found = result(verdict, "failed")
    assert (verdict.status, found.status, found.value) == (status, status, value)
    assert named in found.reason
    assert [slo for slo in judge(GOOD, SLOS).slos if slo.name == "failed"] == []


SPIKE = quick_spike_measures()
COMMITS = SPIKE.model_copy(update={"accounting_level": "commits"})
LIMITS = level_of("commits").default_limits()


def test_the_verdict_names_first_what_the_level_leaves_out() -> None:
    """The first reason of a pass says what was not judged; none of it has a value."""
    verdict = judge(COMMITS, Slos.model_validate(LIMITS))

    assert verdict.status == "pass"
    left_out = [slo for slo in verdict.slos if slo.name in LIMITS]
    assert all(slo.name in verdict.reasons[0] for slo in left_out)
    assert {(slo.status, slo.value) for slo in left_out} == {("not_judged", None)}


def test_what_decided_is_told_from_what_was_left_out() -> None:
    """An invalid run at a level of accounting: what is left out first, why it is invalid next."""
    validity = COMMITS.validity.model_copy(update={"is_valid": False, "reasons": ("late",)})
    verdict = judge(COMMITS.model_copy(update={"validity": validity}), Slos.model_validate(LIMITS))

    assert verdict.reasons == (*verdict.judged_without, *verdict.deciding)
    assert verdict.deciding[0] == "late"
    assert judge(SPIKE, Slos()).judged_without == ()


def test_a_limit_that_the_level_cannot_judge_leaves_the_run_undetermined() -> None:
    """The user asked for lost messages, and committed offsets do not show them: no pass."""
    verdict = judge(COMMITS, Slos.model_validate({**LIMITS, "lost": 0}))

    assert verdict.status == result(verdict, "lost").status == "undetermined"
    assert "lost" not in verdict.judged_without[0]


@pytest.mark.parametrize(
    "fields",
    [
        {"processed_distinct": None, "lost": None},  # it counts no processing
        {"foreign_ledger_records": 50},  # the output that nobody reads
    ],
)
def test_what_the_level_of_commits_does_not_read_is_no_reason(fields: dict[str, Any]) -> None:
    """The accounting of the log is enough there."""
    run = changed("accounting", COMMITS, **fields)

    assert judge(run, Slos.model_validate(LIMITS)).status == "pass"
    whole = run.model_copy(update={"accounting_level": None})
    assert judge(whole, Slos()).status == "undetermined"


def test_an_output_without_headers_proves_no_loss() -> None:
    """The consumer dropped the header: the verdict does not call the messages lost."""
    known = SPIKE.accounting.model_copy(update={"lost": 50, "foreign_ledger_records": 50})
    run = SPIKE.model_copy(update={"accounting_level": "output", "accounting": known})
    limits = Slos.model_validate(level_of("output").default_limits())

    verdict = judge(run, limits)

    assert verdict.status == result(verdict, "lost").status == "undetermined"
    fewer = known.model_copy(update={"foreign_ledger_records": 49})
    assert judge(run.model_copy(update={"accounting": fewer}), limits).status == "fail"


def test_a_limit_on_failed_messages_is_named_too() -> None:
    """No level knows a message that other code gives up, so the limit cannot hold."""
    limits = {**level_of("ledger").default_limits(), "failed": 0}
    run = SPIKE.model_copy(update={"accounting_level": "ledger"})

    verdict = judge(run, Slos.model_validate(limits))

    assert verdict.status == result(verdict, "failed").status == "undetermined"
