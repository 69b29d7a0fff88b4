"""Formulas of scalingModifiers: what they compute, and what is rejected."""

import copy

import pytest

from lagbench.core.keda.formula.compiled import FormulaRefusedError, compile_formula
from lagbench.core.keda.formula.python_tree import FUNCTIONS, NotEvaluatedError
from lagbench.core.keda.loop.composite import NO_INTEGER_MILLI, CompositeFormula, FormulaFailed

VALUES = {"a": 12.0, "b": 5.0}


def milli(
    formula: str, values: dict[str, float | None] | None = None, nil: int | None = None
) -> int:
    """Compile and evaluate over two triggers."""
    tree = compile_formula(formula, ["a", "b"])
    return CompositeFormula(tree, nil_milli=nil).evaluate_milli(values or VALUES)


@pytest.mark.parametrize(
    ("formula", "expected"),
    [
        ("a + b", 17_000),
        ("(a - b) / 3", 2_333),
        ("(b - a) / 3", -2_333),
        ("a > b ? a : b", 12_000),
        ("a < b || !(b >= 5) ? 1 : 2", 2_000),
        ("a > 1 and b < 6 ? 1 : 2", 1_000),
        ("not (a == b) ? 3 : 4", 3_000),
        ("-b ** 2", -25_000),
        ("2 ^ 3 ** 2", 512_000),
        ("7 / 2 + int(a) % 5", 5_500),
        ("max(a, b, 20) + min([a, b])", 25_000),
        ("abs(b - a) + round(2.5) + ceil(0.1) + floor(1.9)", 12_000),
        ("sum([a, b]) / count([a > 1, b > 9]) + mean(a, b) + len([a])", 26_500),
        ("1e3 + 0x10 + 1_0", 1_026_000),
        ("float(a) + 1", 13_000),
        ('float("1_0") + a', 22_000),
        ("let x = a * 2; x + b", 29_000),
        ("if a > b { a } else { b }", 12_000),
        ("1 < b < 6 ? 1 : 2", 1_000),
        ("a in [1, 12] ? 1 : 2", 1_000),
        ("a not in [1, 12] ? 1 : 2", 2_000),
        ("[a, b] | max()", 12_000),
    ],
)
def test_a_formula_over_numbers(formula: str, expected: int) -> None:
    """Arithmetic, logic and functions give what KEDA's language gives, cut to thousandths."""
    assert milli(formula) == expected


def test_nil_stands_for_a_trigger_in_fallback() -> None:
    """``??`` takes the other side of nil, and binds tighter than any other operator."""
    values = {"a": 12.0, "b": None}

    assert milli("a + (b ?? 30)", values) == 42_000
    assert milli("a + b ?? 30", values) == 42_000
    assert milli("b ?? a ?? 1", values) == 12_000


def test_a_nil_result_is_the_fallbacks_value() -> None:
    """A formula that comes to nil gives the fallback's replicas times the target, if any."""
    assert milli("b ?? nil", {"a": 1.0, "b": None}, nil=60_000) == 60_000
    with pytest.raises(FormulaFailed):
        milli("b ?? nil", {"a": 1.0, "b": None})


def test_a_formula_can_be_copied() -> None:
    """A runtime that is tried ahead on a copy takes its formula along."""
    formula = CompositeFormula(compile_formula("a + (b ?? 30)", ["a", "b"]), nil_milli=None)

    assert copy.deepcopy(formula).evaluate_milli({"a": 1.0, "b": None}) == 31_000


def test_nil_in_arithmetic_fails() -> None:
    """A nil without ``??`` makes the formula fail instead of counting as zero."""
    with pytest.raises(FormulaFailed):
        milli("a + b", {"a": 1.0, "b": None})
    with pytest.raises(FormulaFailed):
        milli("a + b", {"a": 1.0})


@pytest.mark.parametrize("formula", ["a / 0", "-a / 0", "0 / 0", "a ** 999"])
def test_what_is_no_number_becomes_the_most_negative_integer(formula: str) -> None:
    """Infinity and NaN turn into what a Go program on amd64 makes of them."""
    assert milli(formula) == NO_INTEGER_MILLI


@pytest.mark.parametrize(
    "formula",
    [
        "a.__class__",
        "a['x']",
        "__import__('os')",
        "open('x')",
        "(" * 60 + "a" + ")" * 60,
        "+".join(["a"] * 400),
        "a" + " ?? a" * 300,
        "-" * 1000 + "a",
        "max(" * 60 + "a" + ")" * 60,
        "-(a > b)",
        "abs(a, b)",
        "a + (c ?? 1)",
        "b ?? 1 + a",
    ],
)
def test_nothing_but_small_formulas_over_numbers_is_taken(formula: str) -> None:
    """Members, other functions, wrong types and oversized formulas are refused unevaluated."""
    with pytest.raises(FormulaRefusedError):
        compile_formula(formula, ["a", "b"])


@pytest.mark.parametrize(
    ("formula", "named"),
    [
        ("sum([a, b], # * 2)", "sum"),
        ("filter([a, b], # > 1) | len()", "filter|predicate|pointer"),
        ("[a, b][0]", "index"),
        ("len(1..3)", r"\.\."),
        ('"a" contains "b" ? 1 : 2', "contains"),
        ("len({a: 1})", "map"),
    ],
)
def test_what_is_not_evaluated_is_named(formula: str, named: str) -> None:
    """KEDA takes these; the bench says which part it cannot evaluate before anything scales."""
    node = compile_formula(formula, ["a", "b"])

    with pytest.raises(NotEvaluatedError, match=named):
        CompositeFormula(node, nil_milli=None)


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_every_function_that_is_translated_is_evaluated(name: str) -> None:
    """No function is known to the translation only."""
    argument = "[a, b]" if name in {"len", "sum"} else "[a > 1]" if name == "count" else "a"

    assert milli(f"float({name}({argument}))") > 0


def test_nil_is_looked_at_once_and_the_other_side_only_then() -> None:
    """A long chain costs its length, and what stands behind a value is not computed."""
    chain = " ?? ".join(["b"] * 150)

    assert milli(f"{chain} ?? 7", {"a": 1.0, "b": None}) == 7_000
    assert milli("a ?? (b + 1)", {"a": 1.0, "b": None}) == 1_000
