"""KEDA's runtime of an object with scalingModifiers."""

from __future__ import annotations

from typing import Any

import pytest
from tests.fakes.keda_sources import Sources, keda, read, tick

from lagbench.core.keda.refusals import TriggerRefused


def modified(**modifiers: Any) -> dict[str, Any]:
    """Return ``advanced`` with scalingModifiers."""
    return {"scalingModifiers": {"target": "10", **modifiers}}


def test_a_formula_decides_value_and_activity() -> None:
    """The composite is served whatever trigger is active; it is active above activationTarget."""
    sources = Sources()
    advanced = modified(formula="a + b", activationTarget="150")
    runtime = keda(sources, triggers=2, minReplicaCount=0, advanced=advanced)

    assert [spec.name for spec in runtime.metric_specs()] == ["composite-metric"]
    assert read(runtime, "composite-metric") == 100_000
    quiet = tick(runtime, replicas=0)
    sources.by_index[0].value = 101.0
    busy = tick(runtime, replicas=0)

    assert quiet.decision.active.status == "False"
    assert (busy.decision.replicas, busy.active_metrics) == (1, ("composite-metric",))
    assert busy.composite_milli == 151_000


@pytest.mark.parametrize(
    ("formula", "kind", "expected"),
    [
        ("a - b * 2", "AverageValue", 2**63 - 1),
        ("a - b * 2", "Value", -50_000),
        ("a / 0", "AverageValue", 0),
    ],
)
def test_a_composite_below_zero(formula: str, kind: str, expected: int) -> None:
    """The HPA takes a negative average for an overflow; KEDA is inactive anyway."""
    runtime = keda(
        Sources(),
        triggers=2,
        minReplicaCount=1,
        advanced=modified(formula=formula, metricType=kind),
    )

    assert read(runtime, "composite-metric") == expected
    assert not tick(runtime).active_metrics


def test_a_failing_trigger_is_nil_in_a_formula_that_asks_for_it() -> None:
    """Fallback behavior scalingModifiers: from the threshold on the trigger is nil."""
    sources = Sources()
    fallback = {"failureThreshold": 0, "replicas": 6, "behavior": "scalingModifiers"}
    advanced = modified(formula="a + (b ?? 30)")
    runtime = keda(sources, triggers=2, minReplicaCount=1, advanced=advanced, fallback=fallback)
    sources.by_index[1].is_read_broken = True

    assert read(runtime, "composite-metric") == 80_000
    assert tick(runtime).composite_milli == 80_000


def test_another_fallback_takes_the_place_of_the_formula() -> None:
    """A static fallback of one trigger is the composite's value, whatever the other says."""
    sources = Sources()
    fallback = {"failureThreshold": 0, "replicas": 6}
    runtime = keda(
        sources,
        triggers=2,
        minReplicaCount=1,
        advanced=modified(formula="a + b"),
        fallback=fallback,
    )
    sources.by_index[1].is_read_broken = True

    assert read(runtime, "composite-metric") == 60_000


def test_a_formula_that_keda_refuses_is_refused() -> None:
    """The runtime does not start with a formula over a name that no trigger has."""
    with pytest.raises(TriggerRefused):
        keda(Sources(), minReplicaCount=1, advanced=modified(formula="a + c"))
