"""A scaling formula as a tree: the grammar of expr-lang 1.17, as far as numbers need it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from lagbench.core.admission.formula_tokens import FormulaError, Token, tokens

_UNARY = {"not": 50, "!": 50, "-": 90, "+": 90}
_LEVELS = (
    (0, "|"),
    (10, "or ||"),
    (15, "and &&"),
    (20, "== != < > >= <= in matches contains startsWith endsWith"),
    (25, ".."),
    (30, "+ -"),
    (60, "* / %"),
    (100, "** ^"),
    (500, "??"),
)
_BINARY = {name: level for level, names in _LEVELS for name in names.split()}
_RIGHT = frozenset({"**", "^"})
_COMPARISONS = frozenset({"<", ">", ">=", "<="})
_NEGATED = frozenset({"contains", "matches", "startsWith", "endsWith", "in"})
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


_Reader = Callable[[], Node]


def parse_formula(formula: str) -> Node:
    """Return the tree of a formula; ``FormulaError`` at the first word that does not fit."""
    return _Parser(tokens(formula)).whole()


class _Parser:
    """Reads one list of tokens; ``depth`` counts the predicates around the current word."""

    def __init__(self, words: list[Token]) -> None:
        self._words, self._at, self._depth = words, 0, 0

    @property
    def _now(self) -> Token:
        return self._words[self._at]

    def _next(self) -> Token:
        word = self._now
        if word.kind == "EOF":
            raise FormulaError("unexpected token EOF", word.at)
        self._at += 1
        return word

    def _expect(self, *, bracket: str = "", operator: str = "") -> Token:
        word = self._now
        if not (word.is_bracket(bracket) or word.is_operator(operator)):
            raise _unexpected(word)
        return self._next()

    def _name(self) -> Token:
        if self._now.kind != "Identifier":
            raise _unexpected(self._now)
        return self._next()

    def whole(self) -> Node:
        node = self._sequence()
        if self._now.kind != "EOF":
            raise _unexpected(self._now)
        return node

    def _sequence(self) -> Node:
        nodes = [self._expression(0)]
        while self._now.is_operator(";"):
            self._next()
            if self._now.kind == "EOF":
                break
            nodes.append(self._expression(0))
        return nodes[0] if len(nodes) == 1 else Node("sequence", nodes[0].at, parts=tuple(nodes))

    def _expression(self, level: int) -> Node:
        if level == 0 and self._now.is_operator("let"):
            return self._let()
        if level == 0 and self._now.is_operator("if"):
            return self._if()
        left, previous = self._primary(), ""
        while self._now.kind == "Operator":
            word, negated = self._now, None
            if word.text == "not":
                following = self._words[self._at + 1]
                if following.text not in _NEGATED:
                    raise _unexpected(following)
                if _BINARY[following.text] < level:
                    break
                self._next()
                word = negated = following
            own = _BINARY.get(word.text)
            if own is None or own < level:
                break
            self._next()
            left = self._binary(left, word, own, previous)
            if negated is not None:
                left = Node("unary", negated.at, "not", (left,))
            previous = word.text
        return self._conditional(left) if level == 0 else left

    def _binary(self, left: Node, word: Token, level: int, previous: str) -> Node:
        if word.text == "|":
            return self._call(self._name(), (left,))
        if previous == "??" and word.text != "??":
            raise FormulaError(
                f"Operator ({word.text}) and coalesce expressions (??) cannot be mixed. Wrap "
                "either by parentheses.",
                word.at,
            )
        if word.text in _COMPARISONS:
            return self._comparison(left, word, level)
        right = self._expression(level if word.text in _RIGHT else level + 1)
        return Node("binary", word.at, word.text, (left, right))

    def _comparison(self, left: Node, word: Token, level: int) -> Node:
        """Read ``a < b < c`` as both comparisons together."""
        root: Node | None = None
        while True:
            right = self._expression(level + 1)
            one = Node("binary", word.at, word.text, (left, right))
            root = one if root is None else Node("binary", word.at, "&&", (root, one))
            if not self._now.is_operator(*_COMPARISONS):
                return root
            left, word = right, self._next()

    def _let(self) -> Node:
        self._next()
        name = self._name()
        self._expect(operator="=")
        value = self._expression(0)
        self._expect(operator=";")
        return Node("let", name.at, name.text, (value, self._sequence()))

    def _if(self) -> Node:
        at = self._next().at
        condition = self._expression(0)
        first = self._block()
        self._expect(operator="else")
        second = self._if() if self._now.is_operator("if") else self._block()
        return Node("condition", at, "if", (condition, first, second))

    def _block(self) -> Node:
        self._expect(bracket="{")
        node = self._sequence()
        self._expect(bracket="}")
        return node

    def _conditional(self, node: Node) -> Node:
        while self._now.is_operator("?"):
            self._next()
            if self._now.is_operator(":"):
                self._next()
                first = node
            else:
                first = self._expression(0)
                self._expect(operator=":")
            node = Node("condition", node.at, "?", (node, first, self._expression(0)))
        return node

    def _primary(self) -> Node:
        word = self._now
        if word.kind == "Operator" and word.text in _UNARY:
            self._next()
            inner = self._expression(_UNARY[word.text])
            return self._postfix(Node("unary", word.at, word.text, (inner,)))
        if word.is_bracket("("):
            self._next()
            inner = self._sequence()
            self._expect(bracket=")")
            return self._postfix(inner)
        if self._depth and word.is_operator("#", "."):
            if word.text == "#":
                self._next()
            is_named = word.text == "#" and self._now.kind == "Identifier"
            name = self._next().text if is_named else ""
            return self._postfix(Node("pointer", word.at, name))
        return self._postfix(self._secondary())

    def _secondary(self) -> Node:
        word = self._now
        if word.kind == "Number":
            self._next()
            lower = word.text.lower()
            is_float = not lower.startswith("0x") and any(c in lower for c in ".e")
            return Node("float" if is_float else "int", word.at, word.text)
        if word.kind == "String":
            return Node("string", self._next().at, word.text)
        if word.kind == "Identifier":
            return self._named(self._next())
        if word.is_bracket("["):
            self._next()
            return Node("array", word.at, parts=self._listed("]", self._item))
        if word.is_bracket("{"):
            self._next()
            return Node("map", word.at, parts=self._listed("}", self._pair))
        raise _unexpected(word)

    def _named(self, word: Token) -> Node:
        if self._now.is_bracket("(") and word.text not in {"true", "false", "nil"}:
            return self._call(word, ())
        kind = {"true": "bool", "false": "bool", "nil": "nil"}.get(word.text, "name")
        return Node(kind, word.at, word.text)

    def _listed(self, closing: str, read: _Reader) -> tuple[Node, ...]:
        nodes: list[Node] = []
        while not self._now.is_bracket(closing):
            if nodes:
                self._expect(operator=",")
                if self._now.is_bracket(closing):
                    break
            nodes.append(read())
        self._expect(bracket=closing)
        return tuple(nodes)

    def _item(self) -> Node:
        return self._expression(0)

    def _pair(self) -> Node:
        word = self._now
        if word.is_bracket("("):
            self._expression(0)
        elif word.kind in {"Number", "String", "Identifier"}:
            self._next()
        else:
            raise FormulaError(
                "a map key must be a quoted string, a number, a identifier, or an expression "
                f"enclosed in parentheses (unexpected token {word})",
                word.at,
            )
        self._expect(operator=":")
        return self._expression(0)

    def _call(self, name: Token, given: tuple[Node, ...]) -> Node:
        self._expect(bracket="(")
        shape = PREDICATES.get(name.text)
        if shape is None:
            parts = given + self._listed(")", self._item)
            return Node("call", name.at, name.text, parts)
        wanted = shape.split()[len(given) :]
        parts = given
        for index, kind in enumerate(wanted):
            if self._now.is_bracket(")"):
                if kind.endswith("?"):
                    break
                raise FormulaError(f"expected at least {len(wanted)} arguments", self._now.at)
            if index:
                self._expect(operator=",")
            parts += (self._predicate() if kind[0] == "p" else self._expression(0),)
        if self._now.is_operator(","):
            self._next()
        self._expect(bracket=")")
        return Node("call", name.at, name.text, parts)

    def _predicate(self) -> Node:
        at = self._now.at
        self._depth += 1
        if self._now.is_bracket("{"):
            node = self._block()
        else:
            node = self._expression(0)
            if self._now.is_operator(";"):
                raise FormulaError("wrap predicate with brackets { and }", self._now.at)
        self._depth -= 1
        return Node("predicate", at, parts=(node,))

    def _postfix(self, node: Node) -> Node:
        while self._now.is_operator(".", "?.") or self._now.is_bracket("["):
            word = self._next()
            if word.text == "?." and self._now.is_bracket("["):
                word = self._next()
            if word.text != "[":
                name = self._next()
                if name.kind != "Identifier" and not name.text.isidentifier():
                    raise FormulaError("expected name", name.at)
                node = Node("member", name.at, name.text, (node,))
                if self._now.is_bracket("("):
                    self._next()
                    node = Node(
                        "method", name.at, name.text, (node, *self._listed(")", self._item))
                    )
                continue
            node = self._index(node, word)
        return node

    def _index(self, node: Node, word: Token) -> Node:
        parts, is_slice = [node], False
        while not self._now.is_bracket("]"):
            if self._now.is_operator(":") and not is_slice:
                self._next()
                is_slice = True
            else:
                parts.append(self._expression(0))
                if not self._now.is_operator(":") or is_slice:
                    break
        self._expect(bracket="]")
        return Node("slice" if is_slice else "index", word.at, parts=tuple(parts))


def _unexpected(word: Token) -> FormulaError:
    return FormulaError(f"unexpected token {word}", word.at)
