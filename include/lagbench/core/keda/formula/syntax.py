"""A scaling formula as a tree: the grammar of expr-lang 1.17, as far as numbers need it."""

from __future__ import annotations

from collections.abc import Callable

from lagbench.core.keda.formula.node import PREDICATES, Node, integer_of
from lagbench.core.keda.formula.tokens import FormulaError, Token
from lagbench.core.keda.formula.words import Words, unexpected

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

_Reader = Callable[[], Node]


def parse_formula(formula: str) -> Node:
    """Return the tree of a formula; ``FormulaError`` at the first word that does not fit."""
    return _Parser(Words(formula)).whole()


class _Parser:
    """Reads the words once; ``predicates`` counts those around the current word."""

    def __init__(self, words: Words) -> None:
        self._words, self._predicates = words, 0

    @property
    def _now(self) -> Token:
        return self._words.now

    def whole(self) -> Node:
        node = self._sequence()
        if self._now.kind != "EOF":
            raise unexpected(self._now)
        return node

    def _sequence(self) -> Node:
        nodes = [self._expression(0)]
        while self._now.is_operator(";"):
            self._words.take()
            if self._now.kind == "EOF":
                break
            nodes.append(self._expression(0))
        return nodes[0] if len(nodes) == 1 else Node("sequence", nodes[0].at, parts=tuple(nodes))

    def _expression(self, level: int) -> Node:
        with self._words.one_level_deeper():
            return self._operators(level)

    def _operators(self, level: int) -> Node:
        if level == 0 and self._now.is_operator("let"):
            return self._let()
        if level == 0 and self._now.is_operator("if"):
            return self._if()
        left, previous = self._primary(), ""
        while self._now.kind == "Operator":
            word, negated = self._now, None
            if word.text == "not":
                following = self._words.following
                if following.text not in _NEGATED:
                    raise unexpected(following)
                if _BINARY[following.text] < level:
                    break
                self._words.take()
                word = negated = following
            own = _BINARY.get(word.text)
            if own is None or own < level:
                break
            self._words.take()
            left = self._binary(left, word, own, previous)
            if negated is not None:
                left = Node("unary", negated.at, "not", (left,))
            previous = word.text
        return self._conditional(left) if level == 0 else left

    def _binary(self, left: Node, word: Token, level: int, previous: str) -> Node:
        if word.text == "|":
            return self._call(self._words.name(), (left,))
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
            left, word = right, self._words.take()

    def _let(self) -> Node:
        self._words.take()
        name = self._words.name()
        self._words.expect(operator="=")
        value = self._expression(0)
        self._words.expect(operator=";")
        return Node("let", name.at, name.text, (value, self._sequence()))

    def _if(self) -> Node:
        at = self._words.take().at
        condition = self._expression(0)
        first = self._block()
        self._words.expect(operator="else")
        second = self._if() if self._now.is_operator("if") else self._block()
        return Node("condition", at, "if", (condition, first, second))

    def _block(self) -> Node:
        self._words.expect(bracket="{")
        node = self._sequence()
        self._words.expect(bracket="}")
        return node

    def _conditional(self, node: Node) -> Node:
        while self._now.is_operator("?"):
            self._words.take()
            if self._now.is_operator(":"):
                self._words.take()
                first = node
            else:
                first = self._expression(0)
                self._words.expect(operator=":")
            node = Node("condition", node.at, "?", (node, first, self._expression(0)))
        return node

    def _primary(self) -> Node:
        word = self._now
        if word.kind == "Operator" and word.text in _UNARY:
            self._words.take()
            inner = self._expression(_UNARY[word.text])
            return self._postfix(Node("unary", word.at, word.text, (inner,)))
        if word.is_bracket("("):
            self._words.take()
            inner = self._sequence()
            self._words.expect(bracket=")")
            return self._postfix(inner)
        if self._predicates and word.is_operator("#", "."):
            if word.text == "#":
                self._words.take()
            is_named = word.text == "#" and self._now.kind == "Identifier"
            name = self._words.take().text if is_named else ""
            return self._postfix(Node("pointer", word.at, name))
        return self._postfix(self._secondary())

    def _secondary(self) -> Node:
        word = self._now
        if word.kind == "Number":
            self._words.take()
            lower = word.text.lower()
            is_float = not lower.startswith("0x") and any(c in lower for c in ".e")
            return _literal(word, is_float=is_float)
        if word.kind == "String":
            return Node("string", self._words.take().at, word.text)
        if word.kind == "Identifier":
            return self._named(self._words.take())
        if word.is_bracket("["):
            self._words.take()
            return Node("array", word.at, parts=self._listed("]", self._item))
        if word.is_bracket("{"):
            self._words.take()
            return Node("map", word.at, parts=self._listed("}", self._pair))
        raise unexpected(word)

    def _named(self, word: Token) -> Node:
        if self._now.is_bracket("(") and word.text not in {"true", "false", "nil"}:
            return self._call(word, ())
        kind = {"true": "bool", "false": "bool", "nil": "nil"}.get(word.text, "name")
        return Node(kind, word.at, word.text)

    def _listed(self, closing: str, read: _Reader) -> tuple[Node, ...]:
        nodes: list[Node] = []
        while not self._now.is_bracket(closing):
            if nodes:
                self._words.expect(operator=",")
                if self._now.is_bracket(closing):
                    break
            nodes.append(read())
        self._words.expect(bracket=closing)
        return tuple(nodes)

    def _item(self) -> Node:
        return self._expression(0)

    def _pair(self) -> Node:
        word = self._now
        if word.is_bracket("("):
            self._expression(0)
        elif word.kind in {"Number", "String", "Identifier"}:
            self._words.take()
        else:
            raise FormulaError(
                "a map key must be a quoted string, a number, a identifier, or an expression "
                f"enclosed in parentheses (unexpected token {word})",
                word.at,
            )
        self._words.expect(operator=":")
        return self._expression(0)

    def _call(self, name: Token, given: tuple[Node, ...]) -> Node:
        self._words.expect(bracket="(")
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
                self._words.expect(operator=",")
            parts += (self._predicate() if kind[0] == "p" else self._expression(0),)
        if self._now.is_operator(","):
            self._words.take()
        self._words.expect(bracket=")")
        return Node("call", name.at, name.text, parts)

    def _predicate(self) -> Node:
        at = self._now.at
        self._predicates += 1
        if self._now.is_bracket("{"):
            node = self._block()
        else:
            node = self._expression(0)
            if self._now.is_operator(";"):
                raise FormulaError("wrap predicate with brackets { and }", self._now.at)
        self._predicates -= 1
        return Node("predicate", at, parts=(node,))

    def _postfix(self, node: Node) -> Node:
        while self._now.is_operator(".", "?.") or self._now.is_bracket("["):
            word = self._words.take()
            if word.text == "?." and self._now.is_bracket("["):
                word = self._words.take()
            if word.text != "[":
                name = self._words.take()
                if name.kind != "Identifier" and not name.text.isidentifier():
                    raise FormulaError("expected name", name.at)
                node = Node("member", name.at, name.text, (node,))
                if self._now.is_bracket("("):
                    self._words.take()
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
                self._words.take()
                is_slice = True
            else:
                parts.append(self._expression(0))
                if not self._now.is_operator(":") or is_slice:
                    break
        self._words.expect(bracket="]")
        return Node("slice" if is_slice else "index", word.at, parts=tuple(parts))


def _literal(word: Token, *, is_float: bool) -> Node:
    if not is_float:
        try:
            integer_of(word.text)
        except ValueError as error:
            raise FormulaError("invalid integer literal", word.at) from error
    return Node("float" if is_float else "int", word.at, word.text)
