"""The formulas of scalingModifiers: the numbers of triggers in, one number out.

KEDA compiles them with expr-lang. This module knows what counts replicas: arithmetic, comparison,
logic, ``? :``, ``??``, arrays and functions of numbers. It rejects formulas that expr-lang rejects,
and names the rest.
"""

from __future__ import annotations

import operator
import re
import statistics
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from math import ceil, copysign, floor, fmod, inf, isfinite, nan
from typing import Any, NoReturn

_Values = Mapping[str, Any]
_NUMBERS, _ITEM = frozenset({"float", "int", "any"}), "#"
_TOKEN = re.compile(
    r"""\s+|/\*.*?\*/|(?P<number>0[xX][\da-fA-F_]+|0[bB][01_]+|0[oO][0-7_]+
    |(?:\d[\d_]*(?:\.(?!\.)\d[\d_]*)?|\.\d[\d_]*)(?:[eE][+-]?\d+)?)
    |(?P<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|`[^`]*`)
    |(?P<name>[A-Za-z_$][\w$]*)
    |(?P<sign>\?\.|\?\?|\.\.|\*\*|&&|\|\||==|!=|<=|>=|[-+*/%^=<>!|?.,:;\#()\[\]{}])""",
    re.VERBOSE | re.DOTALL,
)
_MOST_WORDS, _MOST_LEVELS = 400, 50  # each level costs Python's stack
# From the loosest to the tightest, as expr-lang has them; ``not`` and the signs lie between.
_LEVELS = {
    **dict.fromkeys(("or", "||"), 10),
    **dict.fromkeys(("and", "&&"), 15),
    **dict.fromkeys(("==", "!=", "<", ">", "<=", ">="), 20),
    **dict.fromkeys(("+", "-"), 30),
    **dict.fromkeys(("*", "/", "%"), 60),
    **dict.fromkeys(("**", "^"), 100),
    "??": 500,
}
_UNARY = {"not": 50, "!": 50, "-": 90, "+": 90}
_WORDS_BEYOND = """
    let if in matches contains startsWith endsWith $env | .. . ?. [ { all none any one filter map
    find findIndex findLast findLastIndex groupBy sortBy reduce string trim trimPrefix trimSuffix
    upper lower replace repeat join type toJSON toBase64 fromBase64 split splitAfter keys values
    toPairs reverse uniq concat flatten sort take indexOf lastIndexOf bitnot bitand bitor bitxor
    bitnand bitshl bitshr bitushr hasPrefix hasSuffix first last get fromJSON fromPairs timezone
    now date duration
"""
_BEYOND = frozenset(_WORDS_BEYOND.split())


class FormulaRefusedError(ValueError):
    """KEDA does not compile the formula."""


class NotEvaluatedError(ValueError):
    """KEDA's language has this, the bench does not."""


class EvaluationFailedError(ValueError):
    """The values at hand give no number: one of them is nil, say."""


@dataclass(frozen=True, slots=True)
class _Part:
    """A part of a formula: its type, how it runs, and whether it subtracts without a bound."""

    type: str
    run: Callable[[_Values], Any]
    subtracts: bool = False


class Formula:
    """A formula over triggers of these names.

    :raises FormulaRefusedError: KEDA rejects it.
    :raises NotEvaluatedError: KEDA takes more than is evaluated here.
    """

    def __init__(self, text: str, trigger_names: Collection[str]) -> None:
        """Read it once."""
        self._may_be_nil = "??" in text  # KEDA then keeps a nil
        literal = re.fullmatch(r"\s*([\"'`])(.*)\1\s*", text)
        if literal is not None and literal[1] not in literal[2]:
            part = _Part("float", lambda _values: number)
            number = _number_in(literal[2])
        else:
            part = _Reader(text, frozenset(trigger_names)).whole()
        if part.type not in _NUMBERS:
            raise FormulaRefusedError(f"its result is not a number, but {part.type}")
        self._run, self.may_be_negative = part.run, part.subtracts

    def evaluate(self, values: Mapping[str, float | None]) -> float | None:
        """Return the result, None for nil; ``EvaluationFailedError`` when there is none."""
        try:
            result = self._run(values)
            return None if result is None and self._may_be_nil else float(result)
        except (ArithmeticError, TypeError, ValueError, KeyError) as error:
            raise EvaluationFailedError(str(error)) from error


def _number_in(text: str) -> float:
    try:
        return float(text)
    except ValueError as error:
        raise FormulaRefusedError(f"{text!r} is not a number") from error


class _Reader:
    """Reads the words once from left to right."""

    def __init__(self, text: str, names: frozenset[str]) -> None:
        self._names, self._level, self._at = names, 0, 0
        self._words: list[tuple[str, str]] = []
        at = 0
        while at < len(text):
            found = _TOKEN.match(text, at)
            if found is None:
                raise FormulaRefusedError(f"unexpected {text[at]!r}")
            if found.lastgroup is not None:
                self._words.append((found.lastgroup, found[0]))
            at = found.end()
        if len(self._words) > _MOST_WORDS:
            raise NotEvaluatedError(f"more than {_MOST_WORDS} words")

    def whole(self) -> _Part:
        part = self._expression()
        return part if self._at == len(self._words) else self._unexpected()

    @property
    def _now(self) -> str:
        return self._words[self._at][1] if self._at < len(self._words) else ""

    def _take(self, *signs: str) -> bool:
        is_there = self._now in signs
        self._at += is_there
        return is_there

    def _unexpected(self) -> NoReturn:
        if self._now in _BEYOND:
            raise NotEvaluatedError(f"{self._now} is not evaluated here")
        raise FormulaRefusedError(f"unexpected {self._now or 'end'}")

    def _expect(self, sign: str) -> None:
        if not self._take(sign):
            self._unexpected()

    def _expression(self, level: int = 0) -> _Part:
        self._level += 1
        if self._level > _MOST_LEVELS:
            raise NotEvaluatedError(f"nested more than {_MOST_LEVELS} deep")
        left, previous = self._unary(), ""
        while (own := _LEVELS.get(self._now, -1)) >= max(level, 0):
            sign = self._now
            self._at += 1
            if previous == "??" != sign:
                raise FormulaRefusedError(f"{sign} beside ?? needs parentheses")
            is_right = own == _LEVELS["**"]
            right = self._expression(own if is_right else own + 1)
            left = self._chain(left, sign, right) if own == 20 else _binary(sign, left, right)
            previous = sign
        while level == 0 and self._take("?"):
            left = self._condition(left)
        self._level -= 1
        return left

    def _chain(self, left: _Part, sign: str, right: _Part) -> _Part:
        """Read ``a < b < c`` as both comparisons together."""
        part = _binary(sign, left, right)
        while (sign := self._now) in {"<", ">", "<=", ">="}:
            self._at += 1
            left, right = right, self._expression(_LEVELS[sign] + 1)
            part = _binary("&&", part, _binary(sign, left, right))
        return part

    def _condition(self, asked: _Part) -> _Part:
        first = asked if self._now == ":" else self._expression()
        self._expect(":")
        second = self._expression()
        if asked.type not in {"bool", "any"}:
            raise FormulaRefusedError(f"a condition is not a {asked.type}")
        types = {first.type, second.type} - {"nil"} or {"nil"}
        return _Part(
            types.pop() if len(types) == 1 else "any",
            lambda values: first.run(values) if asked.run(values) else second.run(values),
            first.subtracts or second.subtracts,  # what is compared does not become the result
        )

    def _unary(self) -> _Part:
        sign = self._now
        if not self._take(*_UNARY):
            return self._primary()
        inner = self._expression(_UNARY[sign])
        if sign in {"-", "+"}:
            _require(inner, _NUMBERS, sign)
            run: Callable[[Any], Any] = operator.neg if sign == "-" else operator.pos
            negative = sign == "-" or inner.subtracts
            return _Part(inner.type, lambda values: run(inner.run(values)), negative)
        _require(inner, {"bool", "any"}, sign)
        return _Part("bool", lambda values: not inner.run(values))

    def _primary(self) -> _Part:
        kind, word = self._words[self._at] if self._at < len(self._words) else ("", "")
        if kind not in {"number", "name"} and word not in {"(", "[", _ITEM}:
            if kind == "text":
                raise NotEvaluatedError("texts are not evaluated here")
            self._unexpected()
        self._at += 1
        if word == "(":
            part = self._expression()
            self._expect(")")
        elif word == "[":
            items = self._listed("]")
            part = _Part("array", lambda values: [item.run(values) for item in items])
        elif kind == "number":
            part = _literal(word)
        elif self._take("("):
            part = self._call(word)
        else:
            part = self._name(word)
        if self._now in {"[", ".", "?.", "|"} or self._now in _BEYOND:
            self._unexpected()
        return part

    def _name(self, word: str) -> _Part:
        constants = {"true": ("bool", True), "false": ("bool", False), "nil": ("nil", None)}
        if word in constants:
            kind, value = constants[word]
            return _Part(kind, lambda _values: value)
        if word == _ITEM and _ITEM not in self._names:
            raise FormulaRefusedError("unexpected #")
        if word not in self._names:
            if word in _BEYOND:
                raise NotEvaluatedError(f"{word} is not evaluated here")
            raise FormulaRefusedError(f"unknown name {word}")
        return _Part("any" if word == _ITEM else "float", lambda values: values[word])

    def _listed(self, closing: str) -> list[_Part]:
        items: list[_Part] = []
        while not self._take(closing):
            if items:
                self._expect(",")
            items.append(self._expression())
        return items

    def _call(self, name: str) -> _Part:
        if name not in _FUNCTIONS:
            self._at -= 1
            if name in _BEYOND:
                raise NotEvaluatedError(f"{name} is not evaluated here")
            raise FormulaRefusedError(f"unknown name {name}")
        function = _FUNCTIONS[name]
        parts = self._predicate() if name in {"count", "sum"} else self._listed(")")
        least, most = function.arguments
        if not least <= len(parts) <= most:
            raise FormulaRefusedError(f"{name} takes no {len(parts)} arguments")
        for part in parts[:1] if name in {"count", "sum"} else parts:
            _require(part, function.takes, name)
        result = parts[0].type if function.gives == "same" else function.gives
        result = "any" if result == "array" else result
        is_bounded = name == "abs" or (name == "max" and not all(p.subtracts for p in parts))
        negative = not is_bounded and any(part.subtracts for part in parts)
        if len(parts) == 2 and name in {"count", "sum"}:
            items, asked = parts
            if name == "count":
                _require(asked, {"bool", "any"}, name)
            return _Part(
                result,
                lambda values: function.run(
                    [asked.run({**values, _ITEM: item}) for item in items.run(values)]
                ),
                negative,
            )
        return _Part(result, lambda values: function.run(*(p.run(values) for p in parts)), negative)

    def _predicate(self) -> list[_Part]:
        """Read the arguments of a function that may ask something of each item, named ``#``."""
        parts = [self._expression()]
        if self._take(","):
            outer, self._names = self._names, self._names | {_ITEM}
            braces = self._take("{")
            parts.append(self._expression())
            if braces:
                self._expect("}")
            self._names = outer
        self._expect(")")
        return parts


def _literal(word: str) -> _Part:
    plain = word.replace("_", "").lower()
    try:
        is_based = plain[:2] in {"0x", "0o", "0b"}
        value = int(plain, 0) if is_based else float(plain) if set(plain) & {".", "e"} else None
        number = int(plain) if value is None else value
    except ValueError as error:
        raise FormulaRefusedError(f"{word} is not a number") from error
    return _Part("int" if isinstance(number, int) else "float", lambda _values: number)


def _require(part: _Part, allowed: Collection[str], name: str) -> None:
    if part.type not in allowed:
        raise FormulaRefusedError(f"{name} takes no {part.type}")


def _binary(sign: str, left: _Part, right: _Part) -> _Part:
    types = {left.type, right.type}
    negative = left.subtracts or right.subtracts
    if sign == "??":
        same = types - {"nil"} or {"nil"}
        kind = same.pop() if len(same) == 1 else "any"
        return _Part(
            kind,
            lambda values: right.run(values) if (found := left.run(values)) is None else found,
            negative,
        )
    if sign in {"or", "||", "and", "&&"}:
        for part in (left, right):
            _require(part, {"bool", "any"}, sign)
        if sign in {"or", "||"}:
            return _Part("bool", lambda values: left.run(values) or right.run(values))
        return _Part("bool", lambda values: left.run(values) and right.run(values))
    run = _OPERATORS[sign]
    if sign in {"==", "!="}:
        if not (len(types) == 1 or types <= _NUMBERS or types & {"any", "nil"}):
            raise FormulaRefusedError(f"{sign} of {left.type} and {right.type}")
        return _Part("bool", lambda values: run(left.run(values), right.run(values)))
    for part in (left, right):
        _require(part, {"int", "any"} if sign == "%" else _NUMBERS, sign)
    if sign == "%" and _is_zero(right):
        raise FormulaRefusedError("division by zero")
    kind = "float" if sign in {"/", "**", "^"} or "float" in types else "int"
    kind = "bool" if sign in {"<", ">", "<=", ">="} else "any" if "any" in types else kind
    return _Part(
        kind, lambda values: run(left.run(values), right.run(values)), negative or sign == "-"
    )


def _is_zero(part: _Part) -> bool:
    try:
        return bool(part.run({}) == 0)
    except KeyError:
        return False  # it has a trigger's value in it


def _divide(left: float, right: float) -> float:
    if right:
        return left / right
    return nan if left == 0 or left != left else copysign(inf, left) * copysign(1, right)  # noqa: PLR0124 - the test for NaN


def _power(base: float, exponent: float) -> float:
    try:
        result = float(base) ** exponent
    except (OverflowError, ZeroDivisionError):
        return inf
    return nan if isinstance(result, complex) else result


_OPERATORS: Mapping[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": _divide,
    "%": lambda left, right: int(fmod(left, right)),  # with the sign of the dividend
    "**": _power,
    "^": _power,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    ">": operator.gt,
    "<=": operator.le,
    ">=": operator.ge,
}


@dataclass(frozen=True, slots=True)
class _Function:
    run: Callable[..., Any]
    gives: str = "float"
    takes: frozenset[str] = _NUMBERS
    arguments: tuple[int, int] = (1, 1)


def _flat(values: tuple[Any, ...]) -> list[float]:
    """Return numbers that are given one by one or in arrays."""
    return [n for item in values for n in (item if isinstance(item, list) else [item])]


def _of_whole(convert: Callable[[float], float]) -> Callable[[float], float]:
    return lambda value: float(convert(value)) if isfinite(value) else value


_SEVERAL = (1, _MOST_WORDS)
_OF_ARRAYS = frozenset({"array", "any"})
_FUNCTIONS = {
    "abs": _Function(abs, "same"),
    "ceil": _Function(_of_whole(ceil)),
    "floor": _Function(_of_whole(floor)),
    # Half away from zero.
    "round": _Function(_of_whole(lambda value: copysign(floor(abs(value) + 0.5), value))),
    "float": _Function(float),
    "int": _Function(int, "int"),
    "len": _Function(len, "int", _OF_ARRAYS),
    "count": _Function(lambda items: sum(map(bool, items)), "int", _OF_ARRAYS, (1, 2)),
    "sum": _Function(sum, "any", _OF_ARRAYS, (1, 2)),
    "max": _Function(lambda *v: max(_flat(v)), "same", _NUMBERS | _OF_ARRAYS, _SEVERAL),
    "min": _Function(lambda *v: min(_flat(v)), "same", _NUMBERS | _OF_ARRAYS, _SEVERAL),
    "mean": _Function(
        lambda *v: statistics.fmean(_flat(v)), "same", _NUMBERS | _OF_ARRAYS, _SEVERAL
    ),
    "median": _Function(
        lambda *v: float(statistics.median(_flat(v))), "same", _NUMBERS | _OF_ARRAYS, _SEVERAL
    ),
}
