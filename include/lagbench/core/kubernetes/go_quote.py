"""Go's double-quoted string, as ``%q`` prints it."""

from __future__ import annotations

_ESCAPES = {'"': r"\"", "\\": r"\\", "\n": r"\n", "\t": r"\t", "\r": r"\r"}


def go_quote(text: str) -> str:
    """Return the text in double quotes, escaped as Go escapes it."""
    inner = "".join(
        _ESCAPES.get(character)
        or (character if character.isprintable() else f"\\x{ord(character):02x}")
        for character in text
    )
    return f'"{inner}"'
