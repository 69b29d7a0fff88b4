"""Decide what a message, a log or another process may see of foreign values.

Names that look like secrets have one rule here. Such values are never shown, never taken from a
place that shows them, and not inherited by pods.
"""

from __future__ import annotations

import re
import reprlib
from collections.abc import Mapping
from typing import Any

MOST_CHARACTERS = 200
HIDDEN = "(hidden)"
_HUMPS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|[.\-\s]+")
_SECRET_NAME = re.compile(
    r"passw|passphrase|secret|token(?!iz)|credential|fernet|jaas|cookie|authorization"
    r"|(api|access|account|private|signing|encryption|master)_?key|key_?(file_?)?data$|key_pem$"
    r"|(^|_)(keys?|dsn|auth|pat|jwt|bearer|(pg|my)?pass)$|(?<!^)(?<!old)pwd$|pin_?code"
    r"|conn(ection)?_?str(ing)?$"
    r"|auth_(header|config)$|user_info$|webhook"
)
# How messages are keyed and work is limited, as variables of consumers say it.
_NO_SECRET_NAME = re.compile(
    r"(^|_)(partition|message|record|order|customer|user|routing|sort|primary|foreign|group|dedupe?"
    r"|idempotency|consumer)_?keys?$|max_tokens|token_(bucket|limit|refresh)|tokens?_per_|passwordless"
    r"|(enable|use)_(tokens?|auth)$"
)
# Where a secret lies, and what is known of it, is none.
_ABOUT_SECRETS = re.compile(
    r"^spark_kubernetes_(driver|executor)_(secrets_|secret_key_ref_)|(?<!webhook)_ur[li]$"
    r"|_(file|path|dir|folder|location|type|name|size|bits|ttl|seconds|ms|count|enabled|required"
    r"|endpoint|provider|class|algorithm|mechanism|version|duration)$"
)
# A placeholder ({kafka.sasl.password}) or a reference ($(NAME)) is none.
_SECRET_VALUE = re.compile(
    r"://[^/\s:@]*:[^/\s@]+@|-----BEGIN [A-Z ]*PRIVATE KEY"
    r"|(passw(or)?d|(access|account)_?key)[\"']?\s*[=:]\s*[\"']?[^\s\"'&;{$(]",
    re.IGNORECASE,
)
_CONTROLS = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # colours, moves of the cursor
    # a title
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x00-\x1f\x90\x98\x9c-\x9f]*(?:\x07|\x1b\\|\x9c)"
    r"|[\x00-\x08\x0b-\x1f\x7f-\x9f]"
    r"|[\u200e\u200f\u202a-\u202e\u2066-\u2069]"  # the direction of what follows
)


def looks_secret(name: str, value: object = "") -> bool:
    """Return whether a variable, setting or field holds a secret, by its name or by its value.

    A URL with a password is one under every name, and so is ``password=…``.
    """
    words = _HUMPS.sub("_", name).lower()
    is_named = _SECRET_NAME.search(words) and not (
        _ABOUT_SECRETS.search(words) or _NO_SECRET_NAME.search(words)
    )
    return bool(is_named) or (isinstance(value, str) and bool(_SECRET_VALUE.search(value)))


def printable(text: str) -> str:
    """Return ``text`` without what a terminal obeys; newlines and tabs stay."""
    return _CONTROLS.sub("", text)


def shown(value: object, *, name: str = "") -> str:
    """Return a value as a message shows it: cut, at a bounded cost, without secrets.

    :param name: of the field that holds it.
    """
    if value == HIDDEN or looks_secret(name, value):
        return HIDDEN
    return cut(_Shown().repr(value))


def cut(text: str, most: int = MOST_CHARACTERS) -> str:
    """Return a text of at most ``most`` characters, its middle left out."""
    if len(text) <= most:
        return text
    return f"{text[: most * 2 // 3]}…{text[-(most // 3) :]}"


class _Shown(reprlib.Repr):
    """The representation of values from YAML, whose aliases make small files endless."""

    def __init__(self) -> None:
        super().__init__()
        self.maxlevel, self.maxdict, self.maxother = 3, 8, MOST_CHARACTERS
        self.maxlist = self.maxtuple = self.maxset = self.maxfrozenset = 8
        self.maxstring = self.maxlong = MOST_CHARACTERS - 20

    def repr1(self, x: Any, level: int) -> str:
        if isinstance(x, Mapping):
            return self.repr_dict(x, level)
        return HIDDEN if looks_secret("", x) else super().repr1(x, level)

    def repr_dict(self, x: Mapping[Any, Any], level: int) -> str:
        if x and level <= 0:
            return "{…}"
        # {name: DB_PASSWORD, value: …} is how Kubernetes names a variable.
        is_secret = looks_secret(str(x.get("name", "")))
        parts = [
            f"{self.repr1(key, level - 1)}: "
            + (
                HIDDEN
                if looks_secret(str(key)) or (is_secret and key == "value")
                else self.repr1(found, level - 1)
            )
            for key, found in list(x.items())[: self.maxdict]
        ]
        return f"{{{', '.join(parts)}{', …' if len(x) > self.maxdict else ''}}}"

    def repr_int(self, x: int, level: int) -> str:
        try:
            return super().repr_int(x, level)
        except ValueError:  # more digits than Python turns into text
            return f"a number of {x.bit_length()} bits"
