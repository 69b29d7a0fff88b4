"""The base of each kind of action: choose targets, act, hold, undo."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from lagbench.adapters.kube.kube import Kube
from lagbench.core.kubernetes.workload_state import is_ready
from lagbench.core.scenario.actions import ActionBase, LastingAction, drawn
from lagbench.core.scenario.run_names import POD_ORDINAL_ANNOTATION
from lagbench.errors import NotReady
from lagbench.programs.actions.player_settings import PlayerOptions

Of = TypeVar("Of", bound=ActionBase)


@dataclass(frozen=True, slots=True)
class Stage:
    """The parts of the run that an action may use."""

    kube: Kube
    options: PlayerOptions

    def pods(self) -> list[str]:
        """Return all consumer pods that there are."""
        found = self.kube.list("Pod", label_selector=self.options.pod_selector)
        return [str(pod["metadata"]["name"]) for pod in found]

    def ready_pods(self) -> list[str]:
        """Return the consumer pods that are Ready and not asked to stop, in order of creation."""
        found = self.kube.list("Pod", label_selector=self.options.pod_selector)
        stays = [pod for pod in found if not pod["metadata"].get("deletionTimestamp")]
        return [str(pod["metadata"]["name"]) for pod in sorted(stays, key=_order) if is_ready(pod)]


class Performer(ABC, Generic[Of]):
    """Plays one action. Each method may raise ``NotReady``; ``undo`` is called in any case.

    ``came`` and ``detail`` go into the record of the action's end.
    """

    def __init__(self, number: int, action: Of, stage: Stage) -> None:
        """Keep the parts; nothing is done."""
        self.number, self.action, self.stage = number, action, stage
        self.came: list[str] = []
        self.detail = ""

    @abstractmethod
    def choose(self) -> list[str]:
        """Return the targets; nothing is changed yet."""

    @abstractmethod
    def act(self) -> None:
        """Begin: return when the effect is there."""

    def hold(self, stopping: threading.Event) -> None:
        """Wait for the action's end: its time has passed, or the program ends."""
        if isinstance(self.action, LastingAction):
            stopping.wait(self.action.for_seconds)

    def undo(self) -> None:
        """Take the effect back, as far as the action does; also after a failure of ``act``."""

    def draw_pods(self, count: int) -> list[str]:
        """Return ``count`` Ready consumer pods, drawn by the run's seed."""
        candidates = self.stage.ready_pods()
        if not candidates:
            raise NotReady("no consumer pod is Ready: there is no target")
        return drawn(candidates, count, seed=self.stage.options.seed, number=self.number)


def _order(pod: dict[str, Any]) -> tuple[int, str, str]:
    metadata = pod["metadata"]
    ordinal = (metadata.get("annotations") or {}).get(POD_ORDINAL_ANNOTATION, "0")
    return int(ordinal), str(metadata.get("creationTimestamp")), str(metadata["name"])
