"""Which runs are results: their values can be compared, whatever the verdict says."""

from __future__ import annotations

import re
from typing import Any

import pytest
from tests.fakes.measured_run import changed, quick_spike_measures

from lagbench.core.measures.doubts.doubts_of_policy import EVERYTHING, Doubt
from lagbench.core.measures.lag_over_time import NeverDone, Seconds
from lagbench.core.measures.measures import NAMED, Measures
from lagbench.core.scenario.slo_limits import Slos
from lagbench.core.verdict.slo import SloResult, slo_of
from lagbench.core.verdict.verdict import (
    CHECKS,
    Verdict,
    VerdictStatus,
    judge,
    with_checks,
    with_second_group,
)
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


def undecided(*reasons: str, invalid: tuple[str, ...] = ()) -> Verdict:
    """Return the verdict of an undetermined group."""
    update = {"status": "undetermined", "invalid": invalid, "reasons": reasons}
    return GOOD_VERDICT.model_copy(update=update)


LATE = undecided("late", "a gap", invalid=("late",))


@pytest.mark.parametrize(
    ("first", "second", "invalid", "reasons"),
    [
        (GOOD_VERDICT, verdict("fail"), (), ("second group: is fail",)),  # that decided
        (  # the invalid load begins the reasons, as in the verdict of one group
            verdict("fail"),
            LATE,
            ("second group: late",),
            ("second group: late", "is fail", "second group: a gap"),
        ),
        (LATE, LATE, ("late",), ("late", "a gap", "second group: a gap")),  # the load is one
    ],
)
def test_reasons_name_the_group_that_decided(
    first: Verdict, second: Verdict, invalid: tuple[str, ...], reasons: tuple[str, ...]
) -> None:
    """A group that passes gives no reason for a run that does not."""
    joined = with_second_group(first, second)

    assert (joined.invalid, joined.reasons) == (invalid, reasons)


def test_slos_of_the_second_group_name_it() -> None:
    """Names are unique in the run, titles say whose they are, values are shown the same way."""
    joined = with_second_group(GOOD_VERDICT, GOOD_VERDICT)

    own, others = joined.slos[: len(GOOD_VERDICT.slos)], joined.slos[len(GOOD_VERDICT.slos) :]
    assert own == GOOD_VERDICT.slos
    assert [slo.name for slo in others] == [f"second_group.{slo.name}" for slo in GOOD_VERDICT.slos]
    assert [slo.title for slo in others] == [
        f"Second group: {slo.title}" for slo in GOOD_VERDICT.slos
    ]
    assert others[0].option == f"--set second_group.slos.{own[0].name}"
    assert [slo.value_text for slo in others] == [slo.value_text for slo in GOOD_VERDICT.slos]
    assert 'name="second_group.lost"' in junit_xml(joined)


LIMITS = (0.0, 0.1, 29.97, 30.0, 90.0, 120.0, 999.95, 12_345.0, 1_234_567.0)
DISTANCES = (0.0, 1e-9, 1e-4, 0.04, 0.05, 0.4, 0.5, 3.0, 1000.0)


def numbers(text: str) -> list[float]:
    """Return the numbers of a text, which has none with an exponent."""
    assert not re.search(r"\de[+-]", text)
    return [float(found.replace(",", "")) for found in re.findall(r"-?\d[\d,]*\.?\d*", text)]


def judged(name: str, limit: float, value: float) -> SloResult:
    """Return the outcome of an exact value."""
    return slo_of(name, limit).compare(value, "seen")


@pytest.mark.parametrize("name", ["pod_minutes", "reaction_seconds", "rebalance_area_seconds"])
@pytest.mark.parametrize("limit", LIMITS)
def test_a_shown_value_is_on_its_side_of_the_shown_limit(name: str, limit: float) -> None:
    """A value that fails reads as above its limit, one that passes as at or below it."""
    for distance in DISTANCES:
        for value in (limit - distance, limit + distance):
            found = judged(name, limit, value)

            (shown,), (threshold,) = numbers(found.value_text), numbers(found.threshold)

            assert threshold == limit
            assert (shown > threshold) == (found.status == "fail")


@pytest.mark.parametrize("limit", LIMITS)
def test_a_limit_that_lies_inside_an_interval_is_seen_inside(limit: float) -> None:
    """The lower end reads as at or below the limit, the upper one as above it."""
    for distance in DISTANCES[1:]:
        found = slo_of("drain_seconds", limit).compare(
            limit, "seen", low=limit - distance, high=limit + distance
        )

        least, most = numbers(found.reason.split("; ")[-1])

        assert found.status == "undetermined"
        assert least <= limit < most


@pytest.mark.parametrize(
    ("name", "limit", "value", "value_text", "threshold"),
    [
        ("pod_minutes", 30.0, 30.04, "30.04 pod-minutes", "at most 30 pod-minutes"),
        ("reaction_seconds", 90.0, 90.04, "90.04 s", "at most 90 s"),
        ("reaction_seconds", 90.0, 29.96, "30.0 s", "at most 90 s"),
        ("reaction_seconds", 2.5, 3600.0, "3,600.0 s", "at most 2.5 s"),
        ("lost", 0.0, 3.0, "3 messages", "at most 0 messages"),
        ("peak_lag_records", 1_234_567.0, 12.0, "12 messages", "at most 1234567 messages"),
    ],
)
def test_more_decimals_are_shown_only_where_they_decide(
    name: str, limit: float, value: float, value_text: str, threshold: str
) -> None:
    """A value far from its limit has the decimals of its measure; a limit has all its digits."""
    found = judged(name, limit, value)

    assert name in NAMED
    assert (found.value_text, found.threshold) == (value_text, threshold)


def test_the_ends_of_an_interval_keep_four_figures() -> None:
    """A count is whole, and an end far from the limit is short."""
    short = slo_of("drain_seconds", 20.0).compare(24.0, "seen", low=12.34567, high=24.0)
    large = slo_of("lost", 12_344.0).compare(12_345.0, "seen", low=12_341, high=12_345)

    assert numbers(short.reason) == [12.35, 24]
    assert numbers(large.reason) == [12341, 12345]


TIMES = Seconds(p50=1, p95=4, p99=9, max=30)


def lost(at_least: int, at_most: int | None = None) -> Measures:
    """Return the good run, without so many of 10,000 messages."""
    undone = NeverDone(planned=10_000, at_least=at_least, at_most=at_most or at_least)
    lag = GOOD.lag.model_copy(update={"time_lag_seconds": TIMES, "never_done": undone})
    return GOOD.model_copy(update={"lag": lag})


def p95(run: Measures, limit: float | None) -> SloResult:
    """Return the result of a limit of p95."""
    slos = Slos(time_lag_p95_seconds=limit, lost=None)
    return next(s for s in judge(run, slos).slos if s.name == "time_lag_p95_seconds")


@pytest.mark.parametrize(
    ("at_least", "at_most", "limit", "status"),
    [
        (0, 0, 4, "pass"),
        (0, 0, 3.9, "fail"),
        (3_000, 3_000, 300, "fail"),  # 70 % were done: no time lag holds for 95 %
        (501, 501, 300, "fail"),
        (500, 500, 300, "pass"),  # the 95 % that were done, the last of them after 30 s
        (500, 500, 29, "undetermined"),
        (100, 100, 9, "pass"),  # 95 % of all are 96 % of the done: at most their p99
        (100, 100, 8, "undetermined"),
        (100, 100, 3.9, "fail"),  # what was done was too late already
        (0, 3_000, 300, "undetermined"),  # they waited at the end
        (0, 3_000, 3.9, "fail"),
    ],
)
def test_messages_that_were_never_done_count_in_the_time_lag(
    at_least: int, at_most: int, limit: float, status: str
) -> None:
    """With 95 % in time the others may be lost; a percentile of the done messages understates."""
    assert p95(lost(at_least, at_most), limit).status == status


def test_the_reason_says_how_many_were_never_done() -> None:
    """With a limit or without one, and no value stands for a time that does not exist."""
    failed, reported = p95(lost(3_000), 300), p95(lost(3_000), None)

    assert failed.value is None
    assert (reported.status, reported.value) == ("not_judged", 4)
    assert all("3,000 of 10,000" in found.reason for found in (failed, reported))


def test_measures_without_the_count_are_judged_as_before() -> None:
    """An older measures.json does not say how many were never done."""
    older = GOOD.lag.model_dump(mode="json", exclude={"never_done"})
    lag = type(GOOD.lag).model_validate(older | {"time_lag_seconds": TIMES.model_dump()})

    assert lag.never_done is None
    assert p95(GOOD.model_copy(update={"lag": lag}), 4).status == "pass"


BOTH: dict[str, dict[str, object]] = {name: {"reasons": []} for name in CHECKS}


@pytest.mark.parametrize(
    ("status", "found", "judged", "added"),
    [
        ("pass", BOTH, "pass", 0),
        ("pass", {CHECKS[0]: {}}, "undetermined", 1),
        ("fail", {CHECKS[1]: {"reasons": []}}, "fail", 1),
        ("undetermined", {}, "undetermined", 2),
        # A reason of the accounting that was checked, and which the verdict does not have.
        ("pass", BOTH | {CHECKS[1]: {"reasons": ["the log is empty"]}}, "undetermined", 1),
        ("pass", BOTH | {CHECKS[1]: {"reasons": ["known"]}}, "pass", 0),
    ],
)
def test_without_its_checks_no_run_passes(
    status: Any, found: dict[str, Any], judged: str, added: int
) -> None:
    """What decides stays in front; what a check adds is an open end."""
    verdict = Verdict(run_id="r", status=status, reasons=("so",), open_ends=("known",), slos=())
    made = with_checks(verdict, found)

    assert (made.status, len(made.open_ends)) == (judged, 1 + added)
    assert len(made.reasons) == added + (status == made.status)
