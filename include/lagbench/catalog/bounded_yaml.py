"""Bound what a YAML text may cost: its size, its depth, and the values that its aliases make."""

from __future__ import annotations

import re
from typing import Any

import yaml

MOST_BYTES = 2**20
"""Of a file; an object of Kubernetes has no more."""
MOST_DEPTH = 100
MOST_VALUES = 100_000
"""With all aliases and merges (``<<``) expanded."""
_NO_TEXT = re.compile("[\0\ud800-\udfff]")
_TAGS = ("binary", "omap", "pairs", "set", "timestamp")
_NOT_JSON = {f"tag:yaml.org,2002:{name}" for name in _TAGS}


class BoundedLoader(yaml.SafeLoader):
    """A safe loader that stops at the first limit that a text exceeds."""

    def __init__(self, stream: str) -> None:
        """Begin with no value."""
        super().__init__(stream)
        self._depth = self._values = 0
        self._values_of: dict[str | None, int] = {}

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        """Return the next node, its limits checked; an alias counts as what it stands for."""
        event: Any = self.peek_event()  # type: ignore[no-untyped-call]
        if isinstance(event, yaml.AliasEvent):
            if event.anchor in self.anchors and event.anchor not in self._values_of:
                raise _beyond(event, f"the alias {event.anchor!r} is inside of what it stands for")
            self._count(event, self._values_of.get(event.anchor, 0))
            return super().compose_node(parent, index)
        self._values_of.pop(event.anchor, None)  # that of an earlier document
        before = self._values
        self._count(event, 1)
        self._depth += 1
        if self._depth > MOST_DEPTH:
            raise _beyond(event, f"nested more than {MOST_DEPTH} deep")
        node: Any = super().compose_node(parent, index)
        self._depth -= 1
        if event.anchor is not None:
            self._values_of[event.anchor] = self._values - before
        if node.tag in _NOT_JSON:
            raise _beyond(event, f"a value with the tag {node.tag} is none of JSON")
        if isinstance(node, yaml.ScalarNode) and _NO_TEXT.search(node.value):
            raise _beyond(event, "zero bytes and halves of surrogate pairs are not text")
        found: yaml.Node = node
        return found

    def _count(self, event: Any, more: int) -> None:
        self._values += more
        if self._values > MOST_VALUES:
            text = f"{self._values:,} values, aliases and merges expanded; at most {MOST_VALUES:,}"
            raise _beyond(event, text)


def _beyond(event: Any, problem: str) -> yaml.constructor.ConstructorError:
    return yaml.constructor.ConstructorError(None, None, problem, event.start_mark)
