"""One run's measures against another's."""

import re
from typing import Any

import pytest
from tests.fakes.measured_run import quick_spike_measures

from lagbench.core.compare.compare import (
    BOUNDS,
    Bound,
    compare_measures,
)
from lagbench.core.measures import NAMED, Measures

GOOD = quick_spike_measures()


def changed(part: str, **fields: Any) -> Measures:
    """Return the good run's measures with ``fields`` of ``part`` changed."""
    return GOOD.model_copy(update={part: getattr(GOOD, part).model_copy(update=fields)})


def test_a_run_equals_itself() -> None:
    """Nothing regressed."""
    comparison = compare_measures(GOOD, GOOD)

    assert comparison.status == "within"
    assert {measure.status for measure in comparison.measures} == {"within"}
    assert [measure.name for measure in comparison.measures] == [bound.name for bound in BOUNDS]


def test_within_the_bound_is_no_regression() -> None:
    """Reaction 16.5 s; one HPA sync more is the phase's luck, two are not."""
    later = changed("reaction", assigned_seconds=32.0)
    much_later = changed("reaction", assigned_seconds=33.0)

    assert compare_measures(later, GOOD).status == "within"
    found = compare_measures(much_later, GOOD)
    assert found.status == "regressed"
    (reason,) = found.reasons
    assert re.findall(r"[\d.]+", reason) == ["33", "16.5", "32.5"]
    (regression,) = (measure for measure in found.measures if measure.status == "regressed")
    assert (regression.reference, regression.value) == (16.5, 33)


def test_the_larger_of_both_bounds_holds() -> None:
    """10 absolute and 50 %: from 100 up to 150, from 10 up to 20."""
    bound = Bound("drain_seconds", absolute=10, relative=0.5)

    assert bound.width(100) == 50
    assert bound.width(10) == 10


def test_one_duplicate_is_a_regression() -> None:
    """Counts of bad messages have no tolerance."""
    assert compare_measures(changed("accounting", duplicated=1), GOOD).status == "regressed"


def test_better_is_within() -> None:
    """An improvement is no regression."""
    assert compare_measures(changed("drain", drain_seconds=1.0), GOOD).status == "within"


@pytest.mark.parametrize("is_now", [True, False])
def test_a_measure_missing_in_one_run_is_undetermined(*, is_now: bool) -> None:
    """Missing is not zero and not within."""
    gap = changed("accounting", lost=None)

    found = compare_measures(gap, GOOD) if is_now else compare_measures(GOOD, gap)

    assert found.status == "undetermined"
    (lost,) = (measure for measure in found.measures if measure.status == "undetermined")
    assert (lost.name, lost.value is None, lost.reference is None) == ("lost", is_now, not is_now)


def test_a_measure_missing_in_both_is_not_compared() -> None:
    """Neither run had a scale step."""
    none = changed("rebalances", max_dip_percent=None, max_recovery_seconds=None)

    found = compare_measures(none, none)

    assert found.status == "within"
    assert {m.name for m in found.measures if m.status == "not_compared"} == {
        "rebalance_dip_percent",
        "rebalance_recovery_seconds",
    }


def test_fidelities_are_never_compared() -> None:
    """A run on a cluster against one of processes: undetermined, whatever the numbers."""
    cluster = GOOD.model_copy(update={"fidelity": "kubernetes"})

    found = compare_measures(cluster, GOOD)

    assert found.status == "undetermined"


def test_each_bound_is_of_a_named_measure() -> None:
    """A bound names a measure of the registry, and no measure has two."""
    names = [bound.name for bound in BOUNDS]

    assert set(names) <= set(NAMED)
    assert len(names) == len(set(names))
    assert {"rebalance_area_seconds", "standstill_seconds"} <= set(names)


def test_a_comparison_is_shown_with_the_decimals_of_its_measure() -> None:
    """The area has two decimals, reaction one, and a count none."""
    found = {m.name: m for m in compare_measures(GOOD, GOOD).measures}

    assert found["rebalance_area_seconds"].heading == "Rebalance area, s"
    assert found["reaction_seconds"].numbers == ("16.5", "32.5", "16.5")
    assert found["lost"].numbers == ("0", "0", "0")


def test_a_regression_reads_as_above_what_is_allowed() -> None:
    """30.04 against 30: the table and the reason show the decimals that decided."""
    before = changed("scaling", pod_minutes=24.0)
    now = changed("scaling", pod_minutes=30.04)

    found = compare_measures(now, before)

    (regression,) = (measure for measure in found.measures if measure.status == "regressed")
    assert regression.numbers == ("24.00", "30.00", "30.04")
    assert re.findall(r"[\d.]+", found.reasons[0]) == ["30.04", "24", "30"]


def test_a_large_count_has_all_its_digits() -> None:
    """A peak above a million is no power of ten."""
    before = changed("lag", peak_records=1_000_001)
    now = changed("lag", peak_records=1_500_002)

    found = compare_measures(now, before)

    (reason,) = found.reasons
    assert re.findall(r"\d+", reason)[:3] == ["1500002", "1000001", "1500001"]
    (regression,) = (measure for measure in found.measures if measure.status == "regressed")
    assert regression.numbers == ("1,000,001.0", "1,500,001.5", "1,500,002.0")
