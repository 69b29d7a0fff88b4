"""Load YAML safely and strictly: no key twice, keys are text, ``on`` and ``off`` stay words.

PyYAML implements YAML 1.1, which reads ``graceful_shutdown: off`` as false, ``1e3`` as text and
``2024-01-01`` as a date. The core schema of YAML 1.2 does not.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from lagbench.errors import WrongInput

_BOOL, _FLOAT = "tag:yaml.org,2002:bool", "tag:yaml.org,2002:float"
_DATE, _NULL = "tag:yaml.org,2002:timestamp", "tag:yaml.org,2002:null"
_BOOL_WORDS = re.compile(r"true|True|TRUE|false|False|FALSE")
_FLOAT_TEXT = re.compile(
    r"[-+]?(?:\d+\.\d*|\.\d+|\d+(?=[eE]))(?:[eE][-+]?\d+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)"
)


class StrictLoader(yaml.SafeLoader):
    """A safe loader with the scalars of YAML 1.2 that rejects a key given twice.

    Each key is the text as it is written: ``1: x`` has the key ``"1"``.
    """

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """Return the mapping; a key twice, or one that is not a text, is an error."""
        seen: set[str] = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode) or key.tag == _NULL:
                raise _wrong_key("a key is a text", key)
            if key.value in seen:
                raise _wrong_key(f"the key {key.value!r} is given twice", key)
            seen.add(key.value)
        self.flatten_mapping(node)  # merges (<<) become keys of this mapping
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
        return read_bytes(path).decode("utf-8")
    except UnicodeDecodeError as error:
        raise WrongInput(
            where=str(path), field="file", value=path.name, allowed="text in UTF-8"
        ) from error


def read_bytes(path: Path) -> bytes:
    """Return the bytes of a file; ``WrongInput`` when it cannot be read."""
    try:
        return path.read_bytes()
    except OSError as error:
        reason = error.strerror or str(error)
        raise WrongInput(
            where=str(path), field="file", value=path.name, allowed=f"a readable file ({reason})"
        ) from error


def parse_yaml(text: str, *, where: str) -> Any:
    """Return the one document in ``text``; ``WrongInput`` names the line that cannot be read."""
    return _read(lambda: yaml.load(text, Loader=StrictLoader), text, where)  # noqa: S506 - a SafeLoader


def parse_documents(
    text: str, *, where: str, loader: type[StrictLoader] = StrictLoader
) -> list[Any]:
    """Return the documents in ``text`` except empty ones; ``WrongInput`` as for one document."""
    found = _read(lambda: list(yaml.load_all(text, Loader=loader)), text, where)
    return [document for document in found if document is not None]


def _read(read: Callable[[], Any], text: str, where: str) -> Any:
    try:
        return read()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        number = mark.line + 1 if mark else 1
        lines = text.splitlines()
        line = lines[number - 1].strip() if number <= len(lines) else ""
        raise WrongInput(
            where=where, field=f"line {number}", value=line, allowed=f"valid YAML ({error.problem})"
        ) from error
    except (yaml.YAMLError, ValueError) as error:
        raise WrongInput(
            where=where, field="text", value=text[:40], allowed=f"valid YAML ({error})"
        ) from error


def parse_mapping(text: str, *, where: str) -> dict[str, Any]:
    """Return the mapping in ``text``; ``WrongInput`` if it is something else."""
    document = parse_yaml(text, where=where)
    if not isinstance(document, dict):
        found = type(document).__name__ if document is not None else "nothing"
        raise WrongInput(
            where=where, field="document", value=found, allowed="a mapping of fields to values"
        )
    return document
