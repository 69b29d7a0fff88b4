"""Signal the processes of a pod: localkube's own subresource ``pods/NAME/signal``.

No API of a cluster does this. A deletion without grace still sends SIGTERM there, and the first
process of a container ignores SIGKILL and SIGSTOP from inside. A stop has an end that does not
depend on its sender: after ``seconds`` localkube lets the pod continue.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Sequence

from lagbench.localkube.api_error import ApiError, bad_request
from lagbench.localkube.node.pod_worker import PodWorker
from lagbench.localkube.objects import JsonObject, name_of, uid_of

_SIGNALS = {s.name: s for s in (signal.SIGKILL, signal.SIGSTOP, signal.SIGCONT)}
_LONGEST_STOP_SECONDS = 86_400.0


class PodSignals:
    """Sends signals to the pods of one node."""

    def __init__(self, workers: Callable[[], Sequence[PodWorker]]) -> None:
        """Find the pods by ``workers``."""
        self._workers = workers
        self._ends: dict[str, asyncio.TimerHandle] = {}

    def send(self, pod: JsonObject, body: JsonObject) -> JsonObject:
        """Send the signal of ``body``, a mapping of ``signal`` and, for SIGSTOP, ``seconds``.

        :raises ApiError: the body is wrong, or the pod has no running process.
        """
        signum = _SIGNALS.get(str(body.get("signal")))
        if signum is None:
            raise bad_request(f"signal: {body.get('signal')!r} is not one of {', '.join(_SIGNALS)}")
        seconds = _stop_seconds(body) if signum is signal.SIGSTOP else 0.0
        uid = uid_of(pod)
        worker = next((one for one in self._workers() if one.uid == uid), None)
        if worker is None or not worker.running_pids():
            raise ApiError(409, "Conflict", f"pod {name_of(pod)!r} has no running process")
        if (end := self._ends.pop(uid, None)) is not None:
            end.cancel()
        worker.send_signal(signum)
        if seconds:
            loop = asyncio.get_running_loop()
            self._ends[uid] = loop.call_later(seconds, self._end_stop, uid, worker)
        return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}

    def _end_stop(self, uid: str, worker: PodWorker) -> None:
        self._ends.pop(uid, None)
        worker.send_signal(signal.SIGCONT)


def _stop_seconds(body: JsonObject) -> float:
    found = body.get("seconds")
    is_number = isinstance(found, int | float) and not isinstance(found, bool)
    seconds = float(found) if is_number and found is not None else 0.0
    if 0 < seconds <= _LONGEST_STOP_SECONDS:
        return seconds
    raise bad_request(
        f"seconds: {found!r} must be a number above 0 and at most {_LONGEST_STOP_SECONDS:g}: "
        "the pod continues then by itself"
    )
