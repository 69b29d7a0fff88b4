"""Words of a scalingModifiers formula, and the refusal of one, worded as KEDA's language does."""

from __future__ import annotations

import re
from dataclasses import dataclass

_TOKEN = re.compile(
    r"\s*(?:(?P<Number>0[xXbBoO][0-9a-fA-F_]+|(?:\d[\d_]*\.?[\d_]*|\.\d[\d_]*)(?:[eE][+-]?\d+)?)"
    r"|(?P<String>\"[^\"\\]*\"|'[^'\\]*')"
    r"|(?P<Identifier>[A-Za-z_$][A-Za-z0-9_$]*)"
    r"|(?P<Operator>\?\?|\?\.|\*\*|\|\||&&|==|!=|<=|>=|\.\.|::|[-+*/%^<>!?:|.,;=#])"
    r"|(?P<Bracket>[()\[\]{}]))"
)
_WORD_OPERATORS = frozenset(
    {"and", "or", "not", "in", "matches", "contains", "startsWith", "endsWith", "let", "if", "else"}
)


class FormulaRefusedError(ValueError):
    """A formula that does not parse or type-check; the text is what KEDA would say."""

    def __init__(self, message: str, source: str, column: int) -> None:
        """Point at the place in ``source``, which is the formula as KEDA wraps it."""
        dots = "." * column
        super().__init__(f"{message} (1:{column + 1})\n | {source}\n | {dots}^")


@dataclass(frozen=True, slots=True)
class Token:
    """One word, its kind in the language's terms, and its place."""

    kind: str
    text: str
    column: int

    def __str__(self) -> str:
        """Return the token as the language's errors show it."""
        escaped = self.text.replace("\\", "\\\\").replace('"', '\\"')
        return f'{self.kind}("{escaped}")' if self.text else self.kind


def tokenize(source: str) -> list[Token]:
    """Return the words of a formula, closed by one of kind EOF."""
    tokens: list[Token] = []
    place = 0
    while source[place:].strip():
        match = _TOKEN.match(source, place)
        if match is None or match.lastgroup is None:
            column = len(source) - len(source[place:].lstrip())
            raise FormulaRefusedError(
                f"unrecognized character: U+{ord(source[column]):04X} '{source[column]}'",
                source,
                column,
            )
        kind, text = match.lastgroup, match[match.lastgroup]
        if kind == "Identifier" and text in _WORD_OPERATORS:
            kind = "Operator"
        if kind == "String":
            text = text[1:-1]
        tokens.append(Token(kind, text, match.start(match.lastgroup)))
        place = match.end()
    tokens.append(Token("EOF", "", len(source)))
    return tokens
