"""Callers of the lag scaler: KEDA's two calls, paced or flat out, over one channel."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import grpc
import numpy as np

from lag_scaler.wire import externalscaler_pb2 as wire

_SERVICE = "/externalscaler.ExternalScaler"
_TIMEOUT_SECONDS = 3.0  # KEDA's own
PACED_CALLERS = 8
"""At 200 calls/s each calls every 40 ms, so that one slow answer delays no other call."""


@dataclass(frozen=True, slots=True)
class ScaledObject:
    """One object as KEDA names it; requests are serialized beforehand."""

    is_active: bytes
    get_metrics: bytes

    @classmethod
    def of(cls, name: str, metadata: dict[str, str]) -> ScaledObject:
        """Return the requests for an object with this trigger metadata."""
        ref = wire.ScaledObjectRef(name=name, namespace="bench", scalerMetadata=metadata)
        ask = wire.GetMetricsRequest(scaledObjectRef=ref)
        return cls(ref.SerializeToString(), ask.SerializeToString())


@dataclass(slots=True)
class Calls:
    """The answers: seconds by method, and the number of failures."""

    seconds: dict[str, list[float]] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, method: str, seconds: float) -> None:
        """Keep one answer's time."""
        with self._lock:
            self.seconds.setdefault(method, []).append(seconds)

    def failed(self, reason: str) -> None:
        """Keep one failure."""
        with self._lock:
            self.errors.append(reason)

    @property
    def count(self) -> int:
        """Number of answers."""
        return sum(map(len, self.seconds.values()))

    def percentile_ms(self, method: str, share: float) -> float:
        """Return a percentile of one method's times."""
        return float(np.percentile(self.seconds[method], share) * 1_000)


class Caller:
    """Calls one server over one channel, as KEDA's operator does."""

    def __init__(self, port: int) -> None:
        """Open the channel."""
        self._channel = grpc.insecure_channel(f"127.0.0.1:{port}")
        names = ("IsActive", "GetMetrics")
        self._methods = {name: self._channel.unary_unary(f"{_SERVICE}/{name}") for name in names}

    def close(self) -> None:
        """Close the channel."""
        self._channel.close()

    def first_answers(self, objects: Sequence[ScaledObject], *, within_seconds: float) -> None:
        """Ask about every object until each has answered once."""
        gives_up_at = time.monotonic() + within_seconds
        for item in objects:
            while True:
                try:
                    self._methods["IsActive"](item.is_active, timeout=_TIMEOUT_SECONDS)
                    break
                except grpc.RpcError:
                    if time.monotonic() > gives_up_at:
                        raise

    def paced(self, objects: Sequence[ScaledObject], per_second: float, seconds: float) -> Calls:
        """Call at an even rate, objects in turn, both methods for each."""
        calls, step = Calls(), PACED_CALLERS / per_second
        start = time.monotonic() + 0.05

        def work(number: int) -> None:
            due = start + number / per_second
            index = number
            while due < start + seconds:
                time.sleep(max(0.0, due - time.monotonic()))
                self._call(calls, objects[(index // 2) % len(objects)], index)
                due, index = due + step, index + PACED_CALLERS

        _run_all([threading.Thread(target=work, args=(n,)) for n in range(PACED_CALLERS)])
        return calls

    def flat_out(self, objects: Sequence[ScaledObject], callers: int, seconds: float) -> Calls:
        """Call GetMetrics without a pause from so many threads."""
        calls = Calls()
        ends_at = time.monotonic() + seconds

        def work(number: int) -> None:
            index = number
            while time.monotonic() < ends_at:
                self._call(calls, objects[index % len(objects)], 1)
                index += callers

        _run_all([threading.Thread(target=work, args=(n,)) for n in range(callers)])
        return calls

    def _call(self, calls: Calls, item: ScaledObject, index: int) -> None:
        method = "GetMetrics" if index % 2 else "IsActive"
        request: Any = item.get_metrics if index % 2 else item.is_active
        began_at = time.perf_counter()
        try:
            self._methods[method](request, timeout=_TIMEOUT_SECONDS)
        except grpc.RpcError as error:
            calls.failed(f"{error.code().name}: {error.details()}")
        else:
            calls.add(method, time.perf_counter() - began_at)


def _run_all(threads: Sequence[threading.Thread]) -> None:
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
