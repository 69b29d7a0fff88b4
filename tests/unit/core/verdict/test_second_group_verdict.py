"""The verdict of a run with two consumer groups."""

from __future__ import annotations

import pytest
from tests.fakes.measured_run import quick_spike_measures

from lagbench.core.scenario.scenario import Slos
from lagbench.core.verdict.verdict import Verdict, VerdictStatus, judge, with_second_group
from lagbench.report.junit import junit_xml

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
