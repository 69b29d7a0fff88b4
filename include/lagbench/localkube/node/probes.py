"""Probe a container for startup, readiness and liveness."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from lagbench.localkube.objects import JsonObject

# kubelet waits a whole period between probes, even before the first success. With periods of 1 s
# and more, this would hide the pod's own start time. Until the first success, localkube probes at
# this interval.
_EAGER_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class Probe:
    """One httpGet or tcpSocket probe with its timing."""

    port: int
    path: str | None  # None: opening the connection is enough
    headers: tuple[tuple[str, str], ...]
    initial_delay_seconds: float
    period_seconds: float
    timeout_seconds: float
    success_threshold: int
    failure_threshold: int

    @classmethod
    def of(cls, spec: JsonObject, resolve_port: Callable[[object], int]) -> Probe:
        """Return the probe that a (defaulted) spec describes."""
        how = spec.get("httpGet") or spec["tcpSocket"]
        return cls(
            port=resolve_port(how.get("port")),
            path=str(how.get("path") or "/") if "httpGet" in spec else None,
            headers=tuple((h["name"], h["value"]) for h in how.get("httpHeaders") or ()),
            initial_delay_seconds=float(spec.get("initialDelaySeconds") or 0),
            period_seconds=float(spec["periodSeconds"]),
            timeout_seconds=float(spec["timeoutSeconds"]),
            success_threshold=int(spec["successThreshold"]),
            failure_threshold=int(spec["failureThreshold"]),
        )

    async def failure(self) -> str | None:
        """Probe once; return the failure, None on success."""
        try:
            async with asyncio.timeout(self.timeout_seconds):
                return await self._ask()
        except TimeoutError:
            return f"no answer from port {self.port} within {self.timeout_seconds:g} s"
        except (OSError, EOFError) as error:
            return f"port {self.port}: {error}"

    async def _ask(self) -> str | None:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            if self.path is None:
                return None
            extra = "".join(f"{name}: {value}\r\n" for name, value in self.headers)
            writer.write(
                f"GET {self.path} HTTP/1.1\r\nHost: 127.0.0.1:{self.port}\r\n"
                f"User-Agent: kube-probe/1.34\r\nAccept: */*\r\n{extra}"
                "Connection: close\r\n\r\n".encode()
            )
            words = (await reader.readline()).split()
            code = int(words[1]) if len(words) > 1 and words[1].isdigit() else 0
            return None if 200 <= code < 400 else f"HTTP probe failed with statuscode: {code}"
        finally:
            writer.close()


async def follow_readiness(
    probe: Probe,
    *,
    on_change: Callable[[bool], None],
    on_failure: Callable[[str], None],
) -> None:
    """Report each change between ready and not ready, until cancelled; initially not ready."""
    await asyncio.sleep(probe.initial_delay_seconds)
    is_ready, was_ever_ready, in_a_row = False, False, 0
    loop = asyncio.get_running_loop()
    next_report_at = loop.time() + probe.period_seconds
    while True:
        failure = await probe.failure()
        in_a_row = in_a_row + 1 if (failure is None) is not is_ready else 0
        threshold = probe.failure_threshold if is_ready else probe.success_threshold
        if in_a_row >= threshold:
            is_ready, in_a_row = not is_ready, 0
            was_ever_ready = True
            on_change(is_ready)
        if failure is not None and loop.time() >= next_report_at:
            next_report_at = loop.time() + probe.period_seconds
            on_failure(failure)
        eager = not was_ever_ready and in_a_row == 0
        await asyncio.sleep(
            min(_EAGER_SECONDS, probe.period_seconds) if eager else probe.period_seconds
        )


async def until_started(probe: Probe, *, on_failure: Callable[[str], None]) -> bool:
    """Return whether a startup probe succeeded before its failure threshold."""
    await asyncio.sleep(probe.initial_delay_seconds)
    loop = asyncio.get_running_loop()
    gives_up_at = loop.time() + probe.period_seconds * probe.failure_threshold
    while (failure := await probe.failure()) is not None:
        if loop.time() >= gives_up_at:
            on_failure(failure)
            return False
        await asyncio.sleep(_EAGER_SECONDS)
    return True


async def until_dead(probe: Probe, *, on_failure: Callable[[str], None]) -> None:
    """Return when a liveness probe has failed ``failure_threshold`` times in a row."""
    await asyncio.sleep(probe.initial_delay_seconds)
    failures = 0
    while failures < probe.failure_threshold:
        await asyncio.sleep(probe.period_seconds)
        failure = await probe.failure()
        failures = 0 if failure is None else failures + 1
        if failure is not None:
            on_failure(failure)
