"""The verdict on a group of which less is known than of lagbench's own consumers."""

from __future__ import annotations

from tests.fakes.measured_run import quick_spike_measures, result

from lagbench.core.scenario.accounting_level import level_of
from lagbench.core.scenario.scenario import Slos
from lagbench.core.verdict.verdict import judge

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
