"""Actions on the processes of consumer pods: SIGKILL, and SIGSTOP until SIGCONT."""

from __future__ import annotations

from typing import Any

from lagbench.core.scenario.actions import KillPod, PausePod
from lagbench.errors import NotReady
from lagbench.programs.actions.performer import Performer

_KILLED_SECONDS = 30.0
_NET_SECONDS = 5.0
"""The API itself ends a pause this long after its time, if the player cannot."""


class KillPods(Performer[KillPod]):
    """Sends SIGKILL; the action ends when each container has ended and was started again."""

    _restarts: dict[str, int]

    def choose(self) -> list[str]:
        """Draw the pods."""
        pods = self.draw_pods(self.action.pods)
        self._restarts = {pod: self._restart_count(pod) or 0 for pod in pods}
        return pods

    def act(self) -> None:
        """Kill them, and wait until the API shows it."""
        kube = self.stage.kube
        for pod in self._restarts:
            kube.signal_pod(pod, "SIGKILL")
        kube.wait_until(
            lambda _: all(self._was_killed(pod) for pod in self._restarts),
            timeout_seconds=_KILLED_SECONDS,
            what=f"the containers of {', '.join(self._restarts)} to end after SIGKILL",
        )

    def _was_killed(self, pod: str) -> bool:
        count = self._restart_count(pod)
        return count is None or count > self._restarts[pod]

    def _restart_count(self, pod: str) -> int | None:
        """Return how often the pod's containers were started again; None: there is no such pod."""
        found = self.stage.kube.get("Pod", pod)
        return None if found is None else _restarts(found)


class PausePods(Performer[PausePod]):
    """Sends SIGSTOP, and SIGCONT when its time has passed or the player ends."""

    _paused: list[str]

    def choose(self) -> list[str]:
        """Draw the pods."""
        self._paused = []
        self._pods = self.draw_pods(self.action.pods)
        return self._pods

    def act(self) -> None:
        """Stop the processes of each pod; the API lets them continue even without the player."""
        for pod in self._pods:
            self._paused.append(pod)
            seconds = self.action.for_seconds + _NET_SECONDS
            self.stage.kube.signal_pod(pod, "SIGSTOP", seconds=seconds)

    def undo(self) -> None:
        """Let every pod continue that still exists."""
        for pod in self._paused:
            try:
                self.stage.kube.signal_pod(pod, "SIGCONT")
            except NotReady:
                if self.stage.kube.get("Pod", pod) is not None:
                    raise


def _restarts(pod: dict[str, Any]) -> int:
    statuses = (pod.get("status") or {}).get("containerStatuses") or []
    return sum(int(status.get("restartCount") or 0) for status in statuses)
