"""The words of one formula in their order: what is next, and what has to be."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from lagbench.core.keda.formula.tokens import FormulaError, Token, tokens

# KEDA's language allows 10,000 nodes of any depth; here each level costs Python's stack.
MOST_WORDS, MOST_LEVELS = 400, 50
_TOO_LARGE = (
    f"this bench reads formulas of at most {MOST_WORDS} words, nested {MOST_LEVELS} deep at most"
)


class Words:
    """A place in the list of tokens, which only moves forward."""

    def __init__(self, formula: str) -> None:
        """Begin at the first word; ``FormulaError`` for a text without words, or with too many."""
        self._words = tokens(formula)
        self._at = self._level = 0
        if len(self._words) > MOST_WORDS:
            raise FormulaError(_TOO_LARGE, self._words[MOST_WORDS].at)

    @property
    def now(self) -> Token:
        """Return the next word without taking it."""
        return self._words[self._at]

    @property
    def following(self) -> Token:
        """Return the word behind the next one."""
        return self._words[min(self._at + 1, len(self._words) - 1)]

    def take(self) -> Token:
        """Take the next word; there must be one."""
        word = self.now
        if word.kind == "EOF":
            raise unexpected(word)
        self._at += 1
        return word

    def expect(self, *, bracket: str = "", operator: str = "") -> Token:
        """Take the next word, which must be this bracket or operator."""
        if not (self.now.is_bracket(bracket) or self.now.is_operator(operator)):
            raise unexpected(self.now)
        return self.take()

    def name(self) -> Token:
        """Take the next word, which must be a name."""
        if self.now.kind != "Identifier":
            raise unexpected(self.now)
        return self.take()

    @contextmanager
    def one_level_deeper(self) -> Iterator[None]:
        """Count how deep the formula is nested."""
        self._level += 1
        if self._level > MOST_LEVELS:
            raise FormulaError(_TOO_LARGE, self.now.at)
        yield
        self._level -= 1


def unexpected(word: Token) -> FormulaError:
    """Return the refusal of a word that does not fit."""
    return FormulaError(f"unexpected token {word}", word.at)
