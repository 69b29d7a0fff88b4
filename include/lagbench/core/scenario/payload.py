"""Define the messages that a user brings: a file of samples, which are sent as they are.

A line is one sample. Each message is one of them, drawn by the seed. Its identity is in a header.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Field

from lagbench.core.scenario.actions import Action
from lagbench.core.scenario.conf_limits import Reach, StrictModel
from lagbench.core.scenario.message_costs import Poison
from lagbench.errors import WrongInput

MOST_FILE_BYTES = 64 * 2**20
MOST_SAMPLE_BYTES = 900_000
"""Below the 1,048,576 bytes of a batch that a broker takes by default, with key and header."""
PayloadFormat = Literal["json-lines", "base64-lines"]
_ALLOWED = {"json-lines": "a JSON value", "base64-lines": "the base64 of a message's bytes"}


class Payload(StrictModel):
    """A file of samples. The last six fields are filled in when the file is read."""

    file: Annotated[str, Reach.FILE] = Field(
        min_length=1, description="file of samples, beside the scenario file"
    )
    format: PayloadFormat = Field(
        "json-lines",
        description="a line is a JSON value, sent as it is, or the base64 of a message's bytes",
    )
    key_field: str | None = Field(
        None,
        min_length=1,
        description="dotted field of a JSON sample that is the message's key; None: Zipf over keys",
    )
    file_bytes: int | None = Field(None, ge=1, description="size of the file")
    samples: int | None = Field(None, ge=1, description="samples in the file")
    mean_bytes: float | None = Field(None, ge=0, description="mean size of a sample")
    largest_bytes: int | None = Field(None, ge=0, description="size of the largest sample")
    partition_shares: tuple[float, ...] | None = Field(
        None, description="share of the load in each partition; None: without a key_field"
    )
    sha256: str | None = Field(None, description="of the file")


@dataclass(frozen=True, slots=True)
class Samples:
    """The values of a file, and the key of each; ``keys`` None: Zipf draws them."""

    values: tuple[bytes, ...]
    keys: tuple[bytes, ...] | None


def read_samples(text: bytes, payload: Payload, *, where: str) -> Samples:
    """Return the samples in a file's bytes; empty lines are skipped."""
    if payload.key_field is not None and payload.format != "json-lines":
        allowed = "nothing with payload.format base64-lines: its fields are not known"
        field = "payload.key_field"
        raise WrongInput(where=where, field=field, value=payload.key_field, allowed=allowed)
    if len(text) > MOST_FILE_BYTES:
        size = f"{len(text):,} bytes"
        raise _wrong(where, "the file", size, f"at most {MOST_FILE_BYTES:,} bytes")
    values, keys = [], []
    for number, line in enumerate(map(bytes.strip, text.split(b"\n")), start=1):
        if not line:
            continue
        value, content = _sample(line, payload.format, f"line {number}", where)
        values.append(value)
        if payload.key_field is not None:
            keys.append(_key(content, payload.key_field, f"line {number}", where))
    if not values:
        raise _wrong(where, "the file", "no sample", "one sample on each line, at least one")
    return Samples(tuple(values), tuple(keys) if payload.key_field is not None else None)


def with_samples(
    payload: Payload,
    text: bytes,
    samples: Samples,
    *,
    partition_shares: tuple[float, ...] | None = None,
) -> Payload:
    """Return ``payload`` with what its file has, and the shares that its keys make."""
    sizes = [len(value) for value in samples.values]
    return payload.model_copy(
        update={
            "file_bytes": len(text),
            "samples": len(sizes),
            "mean_bytes": sum(sizes) / len(sizes),
            "largest_bytes": max(sizes),
            "partition_shares": partition_shares,
            "sha256": hashlib.sha256(text).hexdigest(),
        }
    )


def payload_problems(
    payload: Payload, kind: str, poison: Poison | None, actions: Sequence[Action]
) -> Iterator[str]:
    """Yield what a scenario with this payload cannot have; its consumers are of a ``kind``."""
    if kind == "spark":
        yield (
            "payload must be left out with consumer.kind spark: its tasks read the identity from "
            "the value"
        )
    if payload.key_field is None:
        return
    keyed = "with payload.key_field: the samples have the keys"
    if poison is not None:
        yield f"poison must be left out {keyed}, and poison names one by its rank"
    for number, action in enumerate(actions):
        if action.kind == "grow_partitions":
            yield f"actions.{number}.kind must be another one {keyed}, and which move is not known"


def _sample(line: bytes, kind: PayloadFormat, field: str, where: str) -> tuple[bytes, Any]:
    """Return a line's value, and what it means where that is known."""
    content: Any = None
    try:
        if kind == "json-lines":
            value, content = line, json.loads(line.decode())  # bytes may be UTF-16
        else:
            value = base64.b64decode(line, validate=True)
    except (binascii.Error, ValueError, RecursionError) as error:
        raise _wrong(where, field, _start_of(line), f"{_ALLOWED[kind]} ({error})") from error
    if len(value) > MOST_SAMPLE_BYTES:
        size = f"{len(value):,} bytes"
        raise _wrong(where, field, size, f"a message of at most {MOST_SAMPLE_BYTES:,} bytes")
    return value, content


def _key(content: Any, key_field: str, field: str, where: str) -> bytes:
    """Return a text as it is, another value as compact JSON."""
    for part in key_field.split("."):
        if not isinstance(content, dict) or content.get(part) is None:
            allowed = f"a JSON object with the field {key_field}, which payload.key_field names"
            raise _wrong(where, field, _start_of(json.dumps(content).encode()), allowed)
        content = content[part]
    text = content if isinstance(content, str) else json.dumps(content, separators=(",", ":"))
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise _wrong(where, field, json.dumps(text)[:80], "a key in UTF-8") from error


def _start_of(line: bytes) -> str:
    return line[:80].decode(errors="replace")


def _wrong(where: str, field: str, value: object, allowed: str) -> WrongInput:
    return WrongInput(where=where, field=field, value=value, allowed=allowed)
