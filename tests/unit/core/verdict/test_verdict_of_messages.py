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
from lagbench.core.scenario.scenario import Slos
from lagbench.core.verdict.verdict import judge

GOOD = quick_spike_measures()

SLOS = Slos(drain_seconds=120)


def in_log_fewer(count: int, **fields: Any) -> Measures:
    """Return the run with ``count`` acknowledged messages at no offset of the log."""
    found = GOOD.accounting
    assert found.in_log is not None
    assert found.processed_distinct is not None
    return changed(
        "accounting",
        in_log=found.in_log - count,
        processed_distinct=found.processed_distinct - count,
        **fields,
    )


def test_acknowledged_messages_that_the_log_lacks_are_lost() -> None:
    """All that is in the log was processed, and still 9,000 acknowledged messages are gone."""
    verdict = judge(in_log_fewer(9_000, not_in_log=9_000, lost_in_broker=9_000), SLOS)

    found = result(verdict, "lost")
    assert (verdict.status, found.status, found.value) == ("fail", "fail", 9_000)


def test_losses_of_consumers_and_broker_add_up() -> None:
    """A limit of 3 holds neither for 2 + 2, and each is told."""
    found = result(judge(changed("accounting", lost=2, lost_in_broker=2), Slos(lost=3)), "lost")

    assert (found.status, found.value) == ("fail", 4)


@pytest.mark.parametrize(
    "fields",
    [
        {"expired": 5, "not_in_log": 5},
        {"log_holes": 2},
        {"produced_acked": None, "lost_in_broker": None},
        {"not_in_log_unknown": 1},
        {"expired": None, "lost_in_broker": None},
    ],
)
def test_a_log_with_gaps_proves_no_absence_of_loss(fields: dict[str, Any]) -> None:
    """Nobody can know whether what is gone was lost: never pass."""
    verdict = judge(changed("accounting", **fields), SLOS)

    found = result(verdict, "lost")
    assert (verdict.status, found.status) == ("undetermined", "undetermined")


def test_deliveries_that_are_in_the_log_after_all_are_no_doubt() -> None:
    """Two outcomes are unknown to the producer, but the log lacks no seq: they were written."""
    acked = (GOOD.accounting.produced_acked or 0) - 2
    run = changed("accounting", produced_unknown=2, produced_acked=acked)

    assert result(judge(run, SLOS), "lost").status == "pass"


def test_a_delivery_that_is_known_to_have_failed_is_no_loss() -> None:
    """The log lacks seven seqs, and the producer named the same seven as rejected."""
    acked = (GOOD.accounting.produced_acked or 0) - 7
    run = in_log_fewer(7, produced_failed=7, produced_acked=acked, not_in_log_failed=7)

    assert result(judge(run, SLOS), "lost").status == "pass"


def test_failed_deliveries_excuse_nothing_by_their_number() -> None:
    """Ten failed and ten are absent: whether they are the same ten nobody can tell."""
    acked = (GOOD.accounting.produced_acked or 0) - 10
    run = in_log_fewer(10, produced_failed=10, produced_acked=acked, not_in_log_excused=10)

    found = result(judge(run, SLOS), "lost")

    assert (found.status, found.value) == ("undetermined", 0)


def test_more_absent_than_failed_is_a_proven_loss() -> None:
    """Twelve are absent and ten failed: two were acknowledged, whichever they are."""
    run = in_log_fewer(12, not_in_log=2, lost_in_broker=2, not_in_log_excused=10)

    found = result(judge(run, SLOS), "lost")

    assert (found.status, found.value) == ("fail", 2)


def test_nothing_in_the_log_never_passes() -> None:
    """No message was offered, so none can be lost: that proves nothing."""
    verdict = judge(changed("accounting", in_log=0, processed_distinct=0), SLOS)

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


def test_double_processing_is_judged_by_the_ledger_and_says_what_it_cannot_know() -> None:
    """A killed pod may have done 800 messages more: the SLO holds and states the bound."""
    started_at = GOOD.load.stream_started_at
    assert started_at is not None
    killed = UnledgeredWork(
        pod="consumer-03", killed_at=started_at + 30_000_000_000, seconds=0.2, messages=800
    )

    found = result(judge(changed("accounting", unledgered=(killed,)), SLOS), "duplicated")

    assert found.status == "pass"
    for named in ("800", "consumer-03", "0.20 s", "+30.0 s"):
        assert named in found.reason


def test_unbounded_work_of_a_killed_pod_is_said_to_be_unknown() -> None:
    """No rate is known of one of two pods, so the sum is unknown, which is not the other's."""
    started_at = GOOD.load.stream_started_at
    assert started_at is not None
    killed = tuple(
        UnledgeredWork(pod=pod, killed_at=started_at, seconds=2.0, messages=messages)
        for pod, messages in (("consumer-03", 800), ("consumer-04", None))
    )

    found = result(judge(changed("accounting", unledgered=killed), SLOS), "duplicated")

    assert "consumer-03" in found.reason
    assert "800" not in found.reason


def test_strange_work_leaves_no_class_settled() -> None:
    """A processing of no known message may be a repeat of any."""
    verdict = judge(changed("accounting", unknown_message=1), SLOS)

    names = ("lost", "duplicated", "reordered", "zombies")
    assert {result(verdict, name).status for name in names} == {"undetermined"}


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
    assert "100000 of 250000" in found.reason


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


def test_messages_that_failed_as_planned_are_named_and_pass() -> None:
    """They are neither lost nor processed, and the verdict says how many there were."""
    verdict = judge(given_up(12, 12, 12), SLOS)

    found = result(verdict, "failed")
    assert (verdict.status, found.status, found.value) == ("pass", "pass", 0)
    assert "12 of 12" in found.reason


@pytest.mark.parametrize("poisoned", [None, 12])
def test_messages_that_failed_without_poison_fail_the_run(poisoned: int | None) -> None:
    """Whether the scenario has poison or not, a message beside it must not fail."""
    by_plan = poisoned or 0
    verdict = judge(given_up(by_plan + 2, by_plan, poisoned), SLOS)

    found = result(verdict, "failed")
    assert (verdict.status, found.status, found.value) == ("fail", "fail", 2)
    assert "consumer-03" in found.reason


def test_poison_that_did_not_act_is_not_the_planned_run() -> None:
    """Two of twelve poisoned messages were processed: the run proves nothing about poison."""
    verdict = judge(given_up(10, 10, 12), SLOS)

    assert verdict.status == result(verdict, "failed").status == "undetermined"
    assert "10 of 12" in result(verdict, "failed").reason


def test_failures_that_the_table_does_not_list_stay_undetermined() -> None:
    """Of which messages they were is not known."""
    verdict = judge(given_up(200_000, None, 12), SLOS)

    assert verdict.status == result(verdict, "failed").status == "undetermined"


def test_a_run_without_poison_and_failures_has_no_such_slo() -> None:
    """Nothing could fail, so nothing is claimed about it."""
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


def test_without_work_the_accounting_of_the_log_is_enough() -> None:
    """At the level of commits the accounting counts no processing, and that is no reason."""
    known = COMMITS.accounting.model_copy(update={"processed_distinct": None, "lost": None})
    run = COMMITS.model_copy(update={"accounting": known})

    assert judge(run, Slos.model_validate(LIMITS)).status == "pass"
    whole = run.model_copy(update={"accounting_level": None})
    assert judge(whole, Slos.model_validate(LIMITS)).status == "undetermined"


def test_an_output_that_nobody_reads_is_no_reason() -> None:
    """At the level of commits the consumer may write its results to the run's output topic."""
    known = COMMITS.accounting.model_copy(update={"foreign_ledger_records": 50})
    run = COMMITS.model_copy(update={"accounting": known})

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
