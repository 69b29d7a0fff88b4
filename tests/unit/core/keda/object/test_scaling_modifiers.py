"""What KEDA checks of scalingModifiers beside the formula itself."""

import pytest

from lagbench.core.keda.object.scaling_modifiers import ScalingModifiers, parse_scaling_modifiers
from lagbench.core.keda.refusals import NotSupported, TriggerRefused


def modifiers(**given: str) -> ScalingModifiers:
    """Return ``a + b`` against 10 with some fields changed."""
    parsed = parse_scaling_modifiers({"formula": "a + b", "target": "10", **given}, where="f")
    assert parsed is not None
    return parsed


def test_defaults() -> None:
    """The type is AverageValue, and anything above zero is active."""
    assert modifiers() == ScalingModifiers(formula="a + b", target="10", target_milli=10_000)


@pytest.mark.parametrize("given", [None, {}, {"formula": "", "target": ""}])
def test_modifiers_that_say_nothing_are_none(given: object) -> None:
    """KEDA compares with an empty struct."""
    assert parse_scaling_modifiers(given, where="f") is None


@pytest.mark.parametrize(
    ("target", "milli", "allows_fallback"),
    [("10", 10_000, True), ("2.5", 2500, False), ("1e2", 100_000, False), ("0.0019", 1, False)],
)
def test_the_target_is_kept_in_thousandths(target: str, milli: int, allows_fallback: bool) -> None:
    """More digits are cut off; a fallback counts only with a whole number."""
    parsed = modifiers(target=target)

    assert (parsed.target_milli, parsed.allows_fallback) == (milli, allows_fallback)


@pytest.mark.parametrize(
    "given",
    [{"formula": ""}, {"target": ""}, {"target": "abc"}, {"target": "0"}, {"target": "-1"}],
)
def test_what_keda_refuses(given: dict[str, str]) -> None:
    """The HPA is not made."""
    with pytest.raises(TriggerRefused, check=lambda error: error.stage == "hpa"):
        modifiers(**given)


def test_an_activation_target_that_is_no_number_is_refused_here() -> None:
    """KEDA takes it, and then its loop never gets through a poll."""
    with pytest.raises(NotSupported, check=lambda error: error.value == "abc"):
        modifiers(activationTarget="abc")

    assert modifiers(activationTarget="5.5").activation_target == 5.5


def test_a_target_that_no_quantity_holds_is_refused_here() -> None:
    """KEDA's check takes Inf, being above zero."""
    with pytest.raises(NotSupported, check=lambda error: error.value == "Inf"):
        modifiers(target="Inf")
