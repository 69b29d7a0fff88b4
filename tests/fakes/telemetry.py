"""Telemetry records of a test: it states what matters, the rest is empty."""

from __future__ import annotations

from types import UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec

from lagbench.core.telemetry.records_of_programs import Record
from lagbench.core.telemetry.records_of_recorder import PodSeen

SECOND = 1_000_000_000
Kind = TypeVar("Kind", bound=Record)


def ns(second: float) -> int:
    """Return seconds as nanoseconds."""
    return round(second * SECOND)


def of(kind: type[Kind], second: float = 0, source: str = "recorder", /, **fields: Any) -> Kind:
    """Return a record of ``second``; a field that must be there and is not given is empty."""
    types, given = get_type_hints(kind), {"at": ns(second), "source": source} | fields
    required = [f.name for f in msgspec.structs.fields(kind) if f.required and f.name not in given]
    return kind(**given, **{name: _empty(types[name]) for name in required})


def _empty(of: Any) -> Any:
    """Return None where it is allowed, else the first of the choices, 0 or nothing."""
    origin = get_origin(of)
    if origin in (Union, UnionType):
        return None
    return get_args(of)[0] if origin is Literal else (origin or of)()


def pod_seen(
    pod: str,
    created: float = 0,
    ready: float | None = None,
    gone: float | None = None,
    *,
    at: float | None = None,
    **fields: Any,
) -> PodSeen:
    """Return what the watch tells of a pod, in seconds; it stamps exactly where nothing is said."""
    instants = {"created_at": created, "ready_at": ready, "gone_at": gone}
    stamps = {name: None if second is None else ns(second) for name, second in instants.items()}
    return of(
        PodSeen, created if at is None else at, **{"pod": pod, "precision_ns": 1} | stamps | fields
    )
