"""Which runs are results: their values can be compared, whatever the verdict says."""

from __future__ import annotations

import pytest
from tests.fakes.measured_run import changed, quick_spike_measures

from lagbench.core.measures.doubts.doubt import EVERYTHING, Doubt
from lagbench.core.measures.measures import Measures
from lagbench.core.scenario.scenario import Slos
from lagbench.core.verdict.verdict import Verdict, VerdictStatus, judge, with_second_group
from lagbench.report.outcome_files import junit_xml

GOOD = quick_spike_measures()


def with_dip(depth: float, noise: float) -> Measures:
    """Return the good run with another dip in its first scale step; the limit is 20 %."""
    first, second, *others = GOOD.rebalances.episodes
    dipped = second.model_copy(update={"dip_percent": depth, "dip_noise_percent": noise})
    return changed("rebalances", GOOD, episodes=(first, dipped, *others))


TOO_CLOSE = with_dip(24.0, 12.0)

OF_MESSAGES = Doubt(code="ledger", about=("messages",), text="the ledger has a hole")

TWO_FILES = Doubt(code="lag_table", about=EVERYTHING, text="two files differ")


def test_a_value_too_close_to_its_limit_leaves_a_result() -> None:
    """The dip lies between 12 and 24 %: undetermined at 20 %, and measured all the same."""
    verdict = judge(TOO_CLOSE, Slos())

    assert verdict.status == "undetermined"
    assert [slo.name for slo in verdict.slos if slo.is_too_close] == ["rebalance_dip_percent"]
    assert verdict.is_result()


def test_pass_and_fail_are_results() -> None:
    """The verdict has an answer, and the load was the planned one."""
    assert judge(GOOD, Slos()).is_result()
    failed = judge(GOOD, Slos(reaction_seconds=10))
    assert (failed.status, failed.is_result()) == ("fail", True)


@pytest.mark.parametrize(
    "run",
    [
        changed("end_state", TOO_CLOSE, is_drained=None),
        changed("validity", TOO_CLOSE, is_valid=False, reasons=("the generator fell behind",)),
        TOO_CLOSE.model_copy(update={"doubts": (TWO_FILES,)}),
        TOO_CLOSE.model_copy(update={"work_unknown": "the ledger lacks a second"}),
    ],
    ids=["end unknown", "another load", "doubt", "unknown work"],
)
def test_what_was_not_measured_is_no_result(run: Measures) -> None:
    """Missing data, another load, files that contradict each other, or a doubt on the value."""
    verdict = judge(run, Slos())

    assert verdict.status == "undetermined"
    assert not verdict.is_result()


def test_what_is_not_compared_does_not_matter() -> None:
    """Work is unknown: no dip can be compared, but the loss can."""
    verdict = judge(TOO_CLOSE.model_copy(update={"work_unknown": "a second is missing"}), Slos())

    assert verdict.is_result({"lost", "reaction_seconds"})
    assert not verdict.is_result({"lost", "rebalance_area_seconds"})


def test_a_claim_without_an_occasion_leaves_a_result() -> None:
    """No sample at full parallelism: the claim is open, and it has no value to compare."""
    run = changed("drain", GOOD, falls_monotonically=None)
    verdict = judge(run, Slos(reaction_seconds=10))

    unsure = [slo.name for slo in verdict.slos if slo.status == "undetermined"]
    assert unsure == ["lag_falls_at_full_parallelism"]
    assert verdict.is_result()


def test_an_invalid_run_that_fails_is_no_result() -> None:
    """A bad message stays found, but the run had another load than planned."""
    invalid = changed("validity", GOOD, is_valid=False, reasons=("the generator fell behind",))
    verdict = judge(changed("accounting", invalid, duplicated=17), Slos())

    assert verdict.invalid
    assert not verdict.is_result()


@pytest.mark.parametrize(
    "run",
    [
        GOOD.model_copy(update={"doubts": (OF_MESSAGES,)}),
        changed("end_state", GOOD, is_drained=False, undrained_records=5000),
    ],
    ids=["doubt", "undrained"],
)
def test_a_run_that_fails_on_doubtful_evidence_is_no_result(run: Measures) -> None:
    """The SLO on the reaction fails for sure; what else the run says is not to be compared."""
    verdict = judge(run, Slos(reaction_seconds=10))

    assert verdict.status == "fail"
    assert verdict.reasons[-len(verdict.open_ends) :] == verdict.open_ends != ()
    assert verdict.why_no_result({"lost"})[: len(verdict.open_ends)] == verdict.open_ends


GOOD_VERDICT = judge(quick_spike_measures(), Slos(drain_seconds=120))


def verdict(status: VerdictStatus) -> Verdict:
    """Return a good run's verdict with another status and its reason."""
    if status == "pass":
        return GOOD_VERDICT
    return GOOD_VERDICT.model_copy(update={"status": status, "reasons": (f"is {status}",)})


@pytest.mark.parametrize(
    ("first", "second", "run"),
    [
        ("pass", "pass", "pass"),
        ("pass", "undetermined", "undetermined"),
        ("undetermined", "pass", "undetermined"),
        ("undetermined", "undetermined", "undetermined"),
        ("pass", "fail", "fail"),
        ("fail", "pass", "fail"),
        ("undetermined", "fail", "fail"),
        ("fail", "undetermined", "fail"),
        ("fail", "fail", "fail"),
    ],
)
def test_the_worse_group_decides(
    first: VerdictStatus, second: VerdictStatus, run: VerdictStatus
) -> None:
    """Fail if one fails, undetermined if one is and none fails, pass otherwise."""
    assert with_second_group(verdict(first), verdict(second)).status == run


def test_reasons_name_the_group_that_decided() -> None:
    """A group that passes gives no reason for a run that does not."""
    joined = with_second_group(GOOD_VERDICT, verdict("fail"))

    assert joined.reasons == ("second group: is fail",)


def test_reasons_for_an_invalid_run_come_first_and_once() -> None:
    """As in the verdict of one group: the invalid load begins the reasons."""
    invalid = GOOD_VERDICT.model_copy(
        update={
            "status": "undetermined",
            "invalid": ("late generator",),
            "reasons": ("late generator", "not drained"),
        }
    )

    joined = with_second_group(verdict("fail"), invalid)

    assert joined.invalid == ("second group: late generator",)
    assert joined.reasons == (
        "second group: late generator",
        "is fail",
        "second group: not drained",
    )


def test_the_load_of_the_run_is_doubted_once() -> None:
    """Both groups get the same load, so its reason does not name the second group again."""
    late = GOOD_VERDICT.model_copy(
        update={"status": "undetermined", "invalid": ("late",), "reasons": ("late", "a gap")}
    )

    joined = with_second_group(late, late)

    assert joined.invalid == ("late",)
    assert joined.reasons == ("late", "a gap", "second group: a gap")


def test_slos_of_the_second_group_name_it() -> None:
    """Names are unique in the run, titles say whose they are, values are shown the same way."""
    joined = with_second_group(GOOD_VERDICT, GOOD_VERDICT)

    own, others = joined.slos[: len(GOOD_VERDICT.slos)], joined.slos[len(GOOD_VERDICT.slos) :]
    assert own == GOOD_VERDICT.slos
    assert [slo.name for slo in others] == [f"second_group.{slo.name}" for slo in GOOD_VERDICT.slos]
    assert [slo.title for slo in others] == [
        f"Second group: {slo.title}" for slo in GOOD_VERDICT.slos
    ]
    assert [slo.value_text for slo in others] == [slo.value_text for slo in GOOD_VERDICT.slos]
    assert 'name="second_group.lost"' in junit_xml(joined)
