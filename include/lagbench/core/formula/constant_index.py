"""An index beyond a list that is written out: KEDA meets it when it tries the formula once."""

from __future__ import annotations

from lagbench.core.formula.node import Node, integer_of
from lagbench.core.formula.tokens import FormulaError


def check_indexes(node: Node) -> None:
    """Raise ``FormulaError`` for the first such index; one below zero counts from the end."""
    for part in node.parts:
        check_indexes(part)
    if node.kind != "index" or node.parts[0].kind != "array":
        return
    index, length = _constant(node.parts[1]), len(node.parts[0].parts)
    if index is not None and not -length <= index < length:
        raise FormulaError(f"index out of range: {index} (array length is {length})", node.at)


def _constant(node: Node) -> int | None:
    if node.kind == "int":
        return integer_of(node.text)
    if node.kind == "unary" and node.text == "-":
        inner = _constant(node.parts[0])
        return None if inner is None else -inner
    return None
