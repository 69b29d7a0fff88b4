"""Read the warnings of an API server: the text of each header ``Warning`` of its answer."""

from __future__ import annotations

import re
from collections.abc import Sequence

_WARNING = re.compile(r'299 \S+ "((?:[^"\\]|\\.)*)"')
_ESCAPED = re.compile(r"\\(.)")


def warnings_of(headers: Sequence[str]) -> tuple[str, ...]:
    """Return the texts of headers ``Warning``, in their order; several may be in one header.

    The API server writes ``299 - "TEXT"`` (RFC 7234, section 5.5), with quotes and backslashes
    escaped.
    """
    found = (text for header in headers for text in _WARNING.findall(header))
    return tuple(_ESCAPED.sub(r"\1", text) for text in found)
