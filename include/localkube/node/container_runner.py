"""Run one container of a pod, restart it by its restart policy, and track its state."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from localkube.kube_objects import PROBE_KINDS, JsonObject, rfc3339
from localkube.node.container_process import ContainerProcess
from localkube.node.pod_environment import ContainerConfigFault

if TYPE_CHECKING:
    from localkube.node.pod_worker import PodWorker

# Kubernetes: at once, then 10 s, doubled up to 5 min; reset after 10 min without a crash.
_FIRST_BACK_OFF_SECONDS = 10.0
_LONGEST_BACK_OFF_SECONDS = 300.0
_BACK_OFF_RESET_SECONDS = 600.0
_CONFIG_RETRY_SECONDS = 2.0


class ContainerRunner:
    """One container: its processes, its probes and its ``containerStatus``."""

    def __init__(self, container: JsonObject, pod: PodWorker, *, is_init: bool) -> None:
        """Prepare a container of ``pod``, whose status follows every change."""
        self._container, self._pod = container, pod
        self.name = str(container["name"])
        policy = pod.pod.spec["restartPolicy"]
        self._restart_policy = "OnFailure" if is_init and policy != "Never" else policy
        self._probes = {
            kind: Probe(spec, pod.resolve_port(spec))
            for kind in PROBE_KINDS
            if (spec := container.get(kind)) and not is_init
        }
        self._log_file = pod.node.logs.file_of(pod.pod, self.name)
        self._stopping = asyncio.Event()
        self.process: ContainerProcess | None = None
        self.state: JsonObject = {"waiting": {"reason": "ContainerCreating"}}
        self._last_state: JsonObject = {}
        self.restart_count = 0
        self.is_ready = self.has_started = False
        self.has_ended = False  # permanently; a container in state "terminated" may start again
        self.first_started_at_ns = 0

    @property
    def exit_code(self) -> int | None:
        """The exit code once it has ended permanently."""
        return int(self.state["terminated"]["exitCode"]) if self.has_ended else None

    def status(self) -> JsonObject:
        """Return the ``containerStatus``."""
        return {
            "name": self.name,
            "image": str(self._container.get("image", "")),
            "imageID": "",
            "state": self.state,
            "lastState": self._last_state,
            "ready": self.is_ready,
            "started": self.has_started,
            "restartCount": self.restart_count,
            "containerID": f"process://{self.process.pid}" if self.process else "",
        }

    async def run(self) -> None:
        """Start the container, and restart it by its policy until it has ended permanently."""
        back_off = 0.0
        while not self._stopping.is_set():
            process = await self._start()
            if process is None:
                break
            await self._run_once(process)
            if self.has_ended:
                return
            self._last_state = self.state
            self.restart_count += 1
            if process.ended_at_ns - process.started_at_ns >= _BACK_OFF_RESET_SECONDS * 1e9:
                back_off = 0.0
            if back_off:
                text = f"back-off {back_off:g}s restarting failed container={self.name}"
                self.state = {"waiting": {"reason": "CrashLoopBackOff", "message": text}}
                self._pod.record("Warning", "BackOff", text)
                self._pod.publish()
                if not await self._waits(back_off):
                    break
            back_off = min(back_off * 2 or _FIRST_BACK_OFF_SECONDS, _LONGEST_BACK_OFF_SECONDS)
        if "terminated" not in self.state:
            # Stopped while it waited to be started: Kubernetes shows such a container as killed.
            self.state = {"terminated": {"exitCode": 137, "reason": "ContainerStatusUnknown"}}
        self.has_ended = True

    async def stop(self, grace_seconds: float) -> None:
        """Stop the container: SIGTERM, then SIGKILL for the group after the grace period."""
        self._stopping.set()
        if self.process is not None and not self.process.exited.done():
            await self._end(self.process, grace_seconds)

    async def _end(self, process: ContainerProcess, grace_seconds: float) -> None:
        if grace_seconds > 0:
            process.terminate()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(grace_seconds):
                    await asyncio.shield(process.exited)
        process.kill()

    async def _start(self) -> ContainerProcess | None:
        """Return the started process; None if the container is stopped before a start succeeds."""
        while True:
            try:
                plan = self._pod.plan(self._container)
                starter = self._pod.node.starter
                self.process = await starter.start(plan, self._log_file, self._stopping)
            except (ContainerConfigFault, OSError) as error:
                waiting = {"reason": "CreateContainerConfigError", "message": str(error)}
                self.state = {"waiting": waiting}
                self._pod.record("Warning", "Failed", f"Error: {error}")
                self._pod.publish()
                if not await self._waits(_CONFIG_RETRY_SECONDS):
                    return None
            else:
                return self.process

    async def _run_once(self, process: ContainerProcess) -> None:
        self.first_started_at_ns = self.first_started_at_ns or process.started_at_ns
        started_at = rfc3339(process.started_at_ns / 1e9)
        self.state = {"running": {"startedAt": started_at}}
        self.has_started = "startupProbe" not in self._probes
        self.is_ready = self.has_started and "readinessProbe" not in self._probes
        how = f"pid {process.pid}{', forked' if process.is_forked else ''}"
        self._pod.record("Normal", "Started", f"Started container {self.name} ({how})")
        self._pod.publish()
        probing = asyncio.create_task(self._probe(process)) if self._probes else None
        try:
            code = await asyncio.shield(process.exited)
        finally:
            if probing is not None:
                probing.cancel()
        self.is_ready = self.has_started = False
        terminated = {
            "exitCode": code,
            "reason": "Completed" if code == 0 else "Error",
            "startedAt": started_at,
            "finishedAt": rfc3339(process.ended_at_ns / 1e9),
            "containerID": f"process://{process.pid}",
        }
        if code > 128:
            terminated["signal"] = code - 128
        self.state = {"terminated": terminated}
        # Decided before it is published: the phase of a pod that will run again is not final.
        restarts = self._restart_policy == "Always" or (
            self._restart_policy == "OnFailure" and code != 0
        )
        self.has_ended = self._stopping.is_set() or not restarts
        self._pod.publish()

    async def _probe(self, process: ContainerProcess) -> None:
        startup = self._probes.get("startupProbe")
        if startup is not None:
            if not await until_started(startup, on_failure=self._unhealthy("Startup")):
                await self._restart(process, "failed startup probe")
                return
            self.has_started = True
            self._set_ready("readinessProbe" not in self._probes)
        async with asyncio.TaskGroup() as group:
            if readiness := self._probes.get("readinessProbe"):
                unready = self._unhealthy("Readiness")
                group.create_task(
                    follow_readiness(readiness, on_change=self._set_ready, on_failure=unready)
                )
            if liveness := self._probes.get("livenessProbe"):
                await until_dead(liveness, on_failure=self._unhealthy("Liveness"))
                await self._restart(process, "failed liveness probe")

    async def _restart(self, process: ContainerProcess, why: str) -> None:
        self._pod.record("Normal", "Killing", f"Container {self.name} {why}, will be restarted")
        grace_seconds = float(self._pod.pod.spec["terminationGracePeriodSeconds"])
        await self._end(process, grace_seconds)

    def _unhealthy(self, kind: str) -> Callable[[str], None]:
        return lambda text: self._pod.record("Warning", "Unhealthy", f"{kind} probe failed: {text}")

    def _set_ready(self, is_ready: bool) -> None:
        self.is_ready = is_ready
        self._pod.publish()

    async def _waits(self, seconds: float) -> bool:
        """Wait; return False if the container was stopped meanwhile."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                return not await self._stopping.wait()
        return True


# kubelet waits a whole period between probes, even before the first success. With periods of 1 s
# and more, this would hide the pod's own start time. Until the first success, localkube probes at
# this interval.
_EAGER_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class Probe:
    """One httpGet or tcpSocket probe: its spec, with the defaults, and the loopback port."""

    spec: JsonObject
    port: int

    def after(self, field: str) -> float:
        """Return a field of the timing, in seconds or times."""
        return float(self.spec.get(field) or 0)

    async def failure(self) -> str | None:
        """Probe once; return the failure, None on success."""
        seconds = self.after("timeoutSeconds")
        try:
            async with asyncio.timeout(seconds):
                return await self._ask()
        except TimeoutError:
            return f"no answer from port {self.port} within {seconds:g} s"
        except (OSError, EOFError) as error:
            return f"port {self.port}: {error}"

    async def _ask(self) -> str | None:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            how = self.spec.get("httpGet")
            if how is None:  # opening the connection is enough
                return None
            headers = (f"{h['name']}: {h['value']}\r\n" for h in how.get("httpHeaders") or ())
            writer.write(
                f"GET {how.get('path') or '/'} HTTP/1.1\r\nHost: 127.0.0.1:{self.port}\r\n"
                f"User-Agent: kube-probe/1.34\r\nAccept: */*\r\n{''.join(headers)}"
                "Connection: close\r\n\r\n".encode()
            )
            words = (await reader.readline()).split()
            code = int(words[1]) if len(words) > 1 and words[1].isdigit() else 0
            return None if 200 <= code < 400 else f"HTTP probe failed with statuscode: {code}"
        finally:
            writer.close()


async def follow_readiness(
    probe: Probe, *, on_change: Callable[[bool], None], on_failure: Callable[[str], None]
) -> None:
    """Report each change between ready and not ready, until cancelled; initially not ready."""
    await asyncio.sleep(probe.after("initialDelaySeconds"))
    is_ready, was_ever_ready, in_a_row = False, False, 0
    now, period = asyncio.get_running_loop().time, probe.after("periodSeconds")
    next_report_at = now() + period
    while True:
        failure = await probe.failure()
        in_a_row = in_a_row + 1 if (failure is None) is not is_ready else 0
        if in_a_row >= probe.after("failureThreshold" if is_ready else "successThreshold"):
            is_ready, was_ever_ready, in_a_row = not is_ready, True, 0
            on_change(is_ready)
        if failure is not None and now() >= next_report_at:
            next_report_at = now() + period
            on_failure(failure)
        is_eager = not was_ever_ready and in_a_row == 0
        await asyncio.sleep(min(_EAGER_SECONDS, period) if is_eager else period)


async def until_started(probe: Probe, *, on_failure: Callable[[str], None]) -> bool:
    """Return whether a startup probe succeeded before its failure threshold."""
    await asyncio.sleep(probe.after("initialDelaySeconds"))
    now = asyncio.get_running_loop().time
    gives_up_at = now() + probe.after("periodSeconds") * probe.after("failureThreshold")
    while (failure := await probe.failure()) is not None:
        if now() >= gives_up_at:
            on_failure(failure)
            return False
        await asyncio.sleep(_EAGER_SECONDS)
    return True


async def until_dead(probe: Probe, *, on_failure: Callable[[str], None]) -> None:
    """Return when a liveness probe has failed ``failureThreshold`` times in a row."""
    await asyncio.sleep(probe.after("initialDelaySeconds"))
    failures = 0
    while failures < probe.after("failureThreshold"):
        await asyncio.sleep(probe.after("periodSeconds"))
        failure = await probe.failure()
        failures = 0 if failure is None else failures + 1
        if failure is not None:
            on_failure(failure)
