"""The words of a scaling formula (the language of expr-lang, which KEDA compiles)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

TokenKind = Literal["Number", "String", "Identifier", "Operator", "Bracket", "EOF"]

_WORD_OPERATORS = frozenset(
    {"not", "in", "and", "or", "matches", "contains", "startsWith", "endsWith", "let", "if", "else"}
)
_TOKEN = re.compile(
    r"""(?P<blank>\s+|/\*.*?\*/|//[^\n]*)
    |(?P<Number>0[xX][0-9a-fA-F_]+|0[bB][01_]+|0[oO][0-7_]+
        |(?:\d[\d_]*(?:\.(?!\.)\d[\d_]*)?|\.\d[\d_]*)(?:[eE][+-]?\d+)?)
    |(?P<String>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|`[^`]*`)
    |(?P<Identifier>[A-Za-z_$][A-Za-z0-9_$]*)
    |(?P<Operator>\?\.|\?\?|\.\.|\*\*|&&|\|\||==|!=|<=|>=|::|[-+*/%^=<>!&|?.,:;\#])
    |(?P<Bracket>[()\[\]{}])""",
    re.VERBOSE | re.DOTALL,
)


class FormulaError(Exception):
    """The formula does not compile; ``at`` is the place, from 0."""

    def __init__(self, message: str, at: int) -> None:
        """Keep the message without its place."""
        super().__init__(message)
        self.message, self.at = message, at

    def shown_in(self, formula: str) -> str:
        """Return message, place and the line with a mark, as expr-lang prints it."""
        before = formula[: self.at]
        line = before.count("\n")
        column = self.at - (before.rfind("\n") + 1)
        source = formula.split("\n")[line]
        mark = f"\n | {'.' * column}^"
        return f"{self.message} ({line + 1}:{column + 1})\n | {source}{mark}"


@dataclass(frozen=True, slots=True)
class Token:
    """One word and where it begins."""

    kind: TokenKind
    text: str
    at: int

    def is_operator(self, *texts: str) -> bool:
        """Return whether this is one of these operators."""
        return self.kind == "Operator" and self.text in texts

    def is_bracket(self, text: str) -> bool:
        """Return whether this is that bracket."""
        return self.kind == "Bracket" and self.text == text

    def __str__(self) -> str:
        """Return the token as a message names it."""
        return "EOF" if self.kind == "EOF" else f'{self.kind}("{self.text}")'


def tokens(formula: str) -> list[Token]:
    """Return the words of a formula, with EOF as the last; blanks and comments are left out."""
    return list(_tokens(formula))


def _token(group: str, text: str, at: int) -> Token | None:
    """Return the token of a matched group; None for blanks and comments."""
    kinds: dict[str, TokenKind] = {
        "Number": "Number",
        "String": "String",
        "Identifier": "Operator" if text in _WORD_OPERATORS else "Identifier",
        "Operator": "Operator",
        "Bracket": "Bracket",
    }
    kind = kinds.get(group)
    if kind is None:
        return None
    return Token(kind, text[1:-1] if kind == "String" else text, at)


def _tokens(formula: str) -> Iterator[Token]:
    at = 0
    while at < len(formula):
        match = _TOKEN.match(formula, at)
        if match is None:
            character = formula[at]
            if character in "\"'`":
                raise FormulaError("literal not terminated", at)
            point = f"U+{ord(character):04X}"
            raise FormulaError(f"unrecognized character: {point} {character!r}", at)
        token = _token(match.lastgroup or "", match.group(), at)
        if token is not None:
            yield token
        at = match.end()
    yield Token("EOF", "", max(len(formula) - 1, 0))  # shown at the last character
