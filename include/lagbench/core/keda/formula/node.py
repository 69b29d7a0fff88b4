"""The tree of a formula: what its nodes hold, and which functions take a predicate."""

from __future__ import annotations

from dataclasses import dataclass, field

# Arguments of the functions that take a predicate: e expression, p predicate, ? optional.
_PREDICATE_SHAPES = (
    ("all none any one filter map find findIndex findLast findLastIndex groupBy", "e p"),
    ("count sum", "e p?"),
    ("sortBy reduce", "e p e?"),
)
PREDICATES = {name: shape for names, shape in _PREDICATE_SHAPES for name in names.split()}


@dataclass(frozen=True, slots=True)
class Node:
    """One node: kind, place in the text, its text (operator, name, literal), and its parts."""

    kind: str
    at: int
    text: str = ""
    parts: tuple[Node, ...] = field(default=())


def integer_of(literal: str) -> int:
    """Return the value of an integer as a formula writes it: digits, or 0x, 0o, 0b and digits."""
    plain = literal.replace("_", "")
    return int(plain, 0 if plain[:2].lower() in {"0x", "0o", "0b"} else 10)
