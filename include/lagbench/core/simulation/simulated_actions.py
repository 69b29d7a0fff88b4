"""The actions of a scenario in the simulated world, as far as the simulator knows them.

A killed pod starts again in place: its partitions wait until the session of the dead member ends.
Without an autoscaler nothing decides. New partitions have no owner until the group finds them.
It starts again without a memory. Of a swap the HPA keeps its memory, if both policies are KEDA's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import inf

from lagbench.core.policy import CheckedPolicy
from lagbench.core.scenario import (
    ActionBase,
    AutoscalerDown,
    GrowPartitions,
    KillPod,
    Scenario,
    SlowDownstream,
    SwapPolicy,
    drawn,
)
from lagbench.core.simulation.clocks import SimulatedClock
from lagbench.core.simulation.simulated_autoscaler import SimulatedAutoscaler
from lagbench.core.simulation.world import World

_SIMULATED = (KillPod, SwapPolicy, AutoscalerDown, SlowDownstream, GrowPartitions)


def is_simulated(action: ActionBase) -> bool:
    """Return whether the simulator plays the action: its kind, at a second of the stream.

    The backlog itself follows a slow downstream.
    """
    is_known = isinstance(action, _SIMULATED)
    return is_known and action.at_seconds is not None


class SimulatedActions:
    """Acts on world and autoscaler; ``scaler`` is the one in force."""

    def __init__(
        self,
        scenario: Scenario,
        world: World,
        start: Callable[[CheckedPolicy], SimulatedAutoscaler],
        policy: CheckedPolicy,
        swapped: Mapping[int, CheckedPolicy],
    ) -> None:
        """Put ``policy`` in force; ``start`` makes the autoscaler of a policy."""
        self._world, self._start, self._swapped = world, start, swapped
        self.scaler = start(policy)
        self._own: list[SimulatedClock] = []
        self._seed = scenario.seed
        self._session_seconds = scenario.longest_session_seconds
        for number, action in enumerate(scenario.actions):
            if action.at_seconds is not None and is_simulated(action):
                self._plan(number, action, action.at_seconds)

    @property
    def clocks(self) -> list[SimulatedClock]:
        """Return the clocks of the autoscaler in force, and those of the actions to come."""
        return [*self.scaler.clocks, *self._own]

    def _plan(self, number: int, action: ActionBase, at: float) -> None:
        if isinstance(action, KillPod):
            self._once(at, lambda: self._kill(number, action.pods))
        elif isinstance(action, AutoscalerDown):
            self._once(at, lambda: self._set_down(is_down=True))
            self._once(at + action.for_seconds, lambda: self._set_down(is_down=False))
        elif isinstance(action, GrowPartitions):
            self._once(at, lambda: self._world.grow(action.partitions))
        elif number in self._swapped:
            self._once(at, lambda: self._swap(self._swapped[number]))

    def _once(self, at: float, act: Callable[[], None]) -> None:
        self._own.append(SimulatedClock(at, inf, act))

    def _kill(self, number: int, count: int) -> None:
        ready = [pod.number for pod in self._world.fleet.alive if pod.ready_at is not None]
        killed = drawn(ready, count, seed=self._seed, number=number)
        self._world.fleet.kill(killed, self._world.second, for_seconds=self._session_seconds)

    def _set_down(self, *, is_down: bool) -> None:
        self.scaler.is_down = is_down
        if not is_down:
            self.scaler.restart()

    def _swap(self, policy: CheckedPolicy) -> None:
        before, self.scaler = self.scaler, self._start(policy)
        self.scaler.take_over(before)
        self.scaler.is_down = before.is_down
