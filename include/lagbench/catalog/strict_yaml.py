"""Load YAML safely and strictly: no key twice, keys are text, ``on`` and ``off`` stay words.

PyYAML implements YAML 1.1, which reads ``graceful_shutdown: off`` as false, ``1e3`` as text and
``2024-01-01`` as a date. The core schema of YAML 1.2 does not.
"""

from __future__ import annotations

import re
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from lagbench.errors import WrongInput
from pod_program.errors import cannot_read
from pod_program.shown import HIDDEN

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


_BOOL, _FLOAT = "tag:yaml.org,2002:bool", "tag:yaml.org,2002:float"
_DATE, _NULL = "tag:yaml.org,2002:timestamp", "tag:yaml.org,2002:null"
_BOOL_WORDS = re.compile(r"true|True|TRUE|false|False|FALSE")
_FLOAT_TEXT = re.compile(
    r"[-+]?(?:\d+\.\d*|\.\d+|\d+(?=[eE]))(?:[eE][-+]?\d+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)"
)


class StrictLoader(BoundedLoader):
    """A safe loader with the scalars of YAML 1.2 that rejects a key given twice."""

    def __init__(self, stream: str) -> None:
        """Begin with no merge done."""
        super().__init__(stream)
        self._flat: set[yaml.Node] = set()

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        """Turn merges (``<<``) into keys, once: a merged mapping may be merged into a third."""
        if node in self._flat:
            return
        self._flat.add(node)
        seen: set[str] = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode) or key.tag == _NULL:
                raise _wrong_key("a key is a text", key)
            if key.value in seen:
                raise _wrong_key(f"the key {key.value!r} is given twice", key)
            seen.add(key.value)
        super().flatten_mapping(node)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """Return the mapping; each key is a text."""
        self.flatten_mapping(node)
        for key, _ in node.value:
            key.tag = self.DEFAULT_SCALAR_TAG
        return dict(super().construct_mapping(node, deep=deep))


def _wrong_key(problem: str, key: yaml.Node) -> yaml.constructor.ConstructorError:
    return yaml.constructor.ConstructorError(None, None, problem, key.start_mark)


# Each class needs its own table: the resolvers of SafeLoader are shared by every user of PyYAML.
StrictLoader.yaml_implicit_resolvers = {
    letter: [(tag, pattern) for tag, pattern in resolvers if tag not in {_BOOL, _FLOAT, _DATE}]
    for letter, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}

StrictLoader.add_implicit_resolver(_BOOL, re.compile(rf"(?:{_BOOL_WORDS.pattern})$"), list("tTfF"))

StrictLoader.add_implicit_resolver(
    _FLOAT, re.compile(rf"(?:{_FLOAT_TEXT.pattern})$"), list("-+0123456789.")
)


def read_text(path: Path) -> str:
    """Return the text of a file; ``WrongInput`` when it cannot be read."""
    try:
        text = read_bytes(path).decode("utf-8-sig")
        if "\0" not in text:
            return text
    except UnicodeDecodeError:
        pass
    raise cannot_read(path, "it is not text in UTF-8")


def read_bytes(path: Path, *, most: int = MOST_BYTES) -> bytes:
    """Return the bytes of a file; ``WrongInput`` when it cannot be read, or has more than ``most``.

    A pipe of the shell (``<(kubectl get …)``) is read, a device is not.
    """
    try:
        mode = path.stat().st_mode
        is_file = stat.S_ISREG(mode) or (stat.S_ISFIFO(mode) and path.is_relative_to("/dev"))
        if not is_file and not stat.S_ISDIR(mode):
            raise cannot_read(path, "it is neither a file nor a pipe")
        with path.open("rb") as file:
            content = file.read(most + 1)
            size = max(len(content), path.stat().st_size)
    except (OSError, ValueError) as error:  # a zero byte in its name is a ValueError
        raise cannot_read(path, error) from error
    require_size(size, most, where=str(path))
    return content


def require_size(size: int, most: int, *, where: str) -> None:
    """Reject a file, or a text, that is larger than ``most`` bytes."""
    if size > most:
        allowed = f"at most {most:,} bytes"
        raise WrongInput(where=where, field="size", value=f"{size:,} bytes", allowed=allowed)


def parse_yaml(text: str, *, where: str) -> Any:
    """Return the one document in ``text``; ``WrongInput`` names the line that cannot be read."""
    return _read(lambda: yaml.load(text, Loader=StrictLoader), text, where)  # noqa: S506 - a SafeLoader


def line_of(text: str, field: str) -> int | None:
    """Return the line of a dotted field in a mapping's text; None if it is not there."""
    try:
        node, line = yaml.compose(text, Loader=StrictLoader), None
    except yaml.YAMLError:
        return None
    for part in field.split("."):
        if isinstance(node, yaml.MappingNode):
            found = [pair for pair in node.value if pair[0].value == part]
        elif isinstance(node, yaml.SequenceNode) and part.isdecimal():
            found = [(one, one) for one in node.value[int(part) : int(part) + 1]]
        else:
            found = []
        if not found:
            return None
        (key, node), *_ = found
        line = key.start_mark.line + 1
    return line


def parse_documents(
    text: str, *, where: str, loader: type[StrictLoader] = StrictLoader, is_private: bool = False
) -> list[Any]:
    """Return the documents in ``text`` except empty ones; ``WrongInput`` as for one document."""
    found = _read(lambda: list(yaml.load_all(text, Loader=loader)), text, where, is_private)
    return [document for document in found if document is not None]


def _read(read: Callable[[], Any], text: str, where: str, is_private: bool = False) -> Any:
    require_size(len(text), MOST_BYTES, where=where)
    try:
        return read()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        number = mark.line + 1 if mark else 1
        lines = text.splitlines()
        line = lines[number - 1].strip() if number <= len(lines) else ""
        line = HIDDEN if is_private else line
        raise WrongInput(
            where=where, field=f"line {number}", value=line, allowed=f"valid YAML ({error.problem})"
        ) from error
    except (yaml.YAMLError, ValueError) as error:
        allowed = f"valid YAML ({error})"
        value = HIDDEN if is_private else text[:40]
        raise WrongInput(where=where, field="text", value=value, allowed=allowed) from error


def parse_mapping(text: str, *, where: str) -> dict[str, Any]:
    """Return the mapping in ``text``; ``WrongInput`` if it is something else."""
    document = parse_yaml(text, where=where)
    if not isinstance(document, dict):
        found = type(document).__name__ if document is not None else "nothing"
        raise WrongInput(
            where=where, field="document", value=found, allowed="a mapping of fields to values"
        )
    return document
