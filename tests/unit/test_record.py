"""The pure parts of ``make record``: what counts as changed, and what a log says of an HPA."""

from __future__ import annotations

from typing import Any

import pytest
from tests.cluster.record.comparison import (
    Outcomes,
    compare,
    hpa_outcomes,
    lag_outcomes,
    webhook_outcomes,
)
from tests.cluster.record.files import DATA, KEPT
from tests.cluster.record.hpa_log import read_syncs
from tests.conformance.comparison import read_oracle


@pytest.mark.parametrize(
    ("new", "changed"),
    [
        ({"a": {"x": 1}, "b": {"x": 2}}, []),
        ({"a": {"x": 3}, "b": {"x": 2}}, ["a: x 1 → 3"]),
        ({"a": {"x": 1, "y": 0}, "b": {"x": 2}}, ["a: y null → 0"]),
        ({"a": {"x": 1}}, ["b: only kept"]),
        ({"a": {"x": 1}, "b": {"x": 2}, "c": {}}, ["c: only new"]),
    ],
    ids=["same", "a value", "a field", "missing", "more"],
)
def test_a_changed_case_is_named_with_its_old_and_new_value(
    new: Outcomes, changed: list[str]
) -> None:
    """A case on one side only has changed, too."""
    compared = compare("hpa", {"a": {"x": 1}, "b": {"x": 2}}, new)

    assert compared.changed == changed
    assert compared.cases == len({"a", "b", *new})


def test_ten_changes_are_shown() -> None:
    """The others are counted."""
    old: Outcomes = {str(number): {"x": 0} for number in range(12)}
    lines = compare("lag", old, {name: {"x": 1} for name in old}).text().splitlines()

    assert lines[0] == "lag: 12 cases, 0 same, 12 changed"
    assert len(lines) == 11


@pytest.mark.parametrize(
    ("kind", "outcomes", "cases"),
    [
        ("hpa", hpa_outcomes, 7200),
        ("lag", lag_outcomes, 546),
        ("webhook", webhook_outcomes, 139 + 3),
    ],
)
def test_each_kept_outcome_is_a_case(kind: str, outcomes: Any, cases: int) -> None:
    """One answer of the webhook depended on the instant; three rows have an update."""
    assert len(outcomes(read_oracle(DATA / KEPT[kind]))) == cases


LOG = """\
I0101 00:00:01.000000       1 horizontal.go:860] "Proposing desired replicas" desiredReplicas=20 \
metric="external metric m" scaleTarget="Deployment/default/w-a"
I0101 00:00:01.004000       1 horizontal.go:927] "Successfully rescaled" \
HPA="default/keda-hpa-w-a" currentReplicas=1 desiredReplicas=4 reason="above"
I0101 00:00:16.000000       1 horizontal.go:860] "Proposing desired replicas from zero" \
desiredReplicas=4 metric="external metric m" scaleTarget="Deployment/default/w-a"
I0101 00:00:16.001000       1 horizontal.go:939] "Decided not to scale" \
scaleTarget="Deployment/default/w-a" desiredReplicas=4 lastScaleTime=""
I0101 00:00:16.002000       1 horizontal.go:939] "Decided not to scale" \
scaleTarget="Deployment/default/w-b" desiredReplicas=7 lastScaleTime=""
E0101 00:00:31.000000       1 horizontal.go:275] "Unhandled Error" err="failed to compute desired \
number of replicas based on listed metrics for Deployment/default/w-a: no metrics"
I0101 00:00:46.000000       1 horizontal.go:927] "Successfully rescaled" \
HPA="default/keda-hpa-w-a" currentReplicas=4 desiredReplicas=2 reason="too many"
"""


def test_the_log_of_the_controller_tells_each_sync() -> None:
    """Proposals belong to the decision that follows; a bound needs none."""
    syncs = read_syncs(LOG.splitlines(), "w-a", 0.0)

    assert [(one["action"], one.get("raw_proposal"), one.get("to")) for one in syncs] == [
        ("scale", 20, 4),
        ("none", 4, 4),
        ("error", None, None),
        ("scale", None, 2),
    ]
    assert round(syncs[0]["t_done"] - syncs[0]["t"], 3) == 0.004
