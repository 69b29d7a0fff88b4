"""Find the problems of a compiled formula that KEDA's one trial would find."""

from __future__ import annotations

from lagbench.core.keda.formula.node import Node, integer_of
from lagbench.core.keda.formula.tokens import FormulaError

_ENDS = frozenset({"first", "last"})


def check_trial(node: Node) -> None:
    """Raise ``FormulaError`` for an index beyond a written list, or a number made of nil."""
    for part in node.parts:
        check_trial(part)
    if node.kind == "index" and node.parts[0].kind == "array":
        _check_index(node)
    elif node.kind == "call" and node.text == "float" and _is_nil(node.parts[0]):
        raise FormulaError("invalid operation: float(<nil>)", node.at)


def _check_index(node: Node) -> None:
    """Hold a written index against the list's length; one below zero counts from the end."""
    index, length = _constant(node.parts[1]), len(node.parts[0].parts)
    if index is None:
        return
    place = index + length if index < 0 else index
    if not 0 <= place < length:
        raise FormulaError(f"index out of range: {place} (array length is {length})", node.at)


def _is_nil(node: Node) -> bool:
    """Return whether it is an end of an empty list."""
    is_end = node.kind == "call" and node.text in _ENDS and len(node.parts) == 1
    return is_end and node.parts[0].kind == "array" and not node.parts[0].parts


def _constant(node: Node) -> int | None:
    if node.kind == "int":
        return integer_of(node.text)
    if node.kind == "unary" and node.text == "-":
        inner = _constant(node.parts[0])
        return None if inner is None else -inner
    return None
