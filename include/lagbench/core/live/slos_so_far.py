"""Follow the SLOs while the run is in progress: what it has shown of each so far.

A standing is not a verdict. It is of the first reading that shows a value, without intervals, gaps
and clocks, and only of the SLOs that telemetry can show. The accounting decides the others.
"""

from __future__ import annotations

from lagbench.core.live.line import LiveCell, LiveSlo, SloStanding
from lagbench.core.live.replicas_so_far import ReplicasSoFar
from lagbench.core.live.spikes_so_far import SpikesSoFar
from lagbench.core.measures import NAMED
from lagbench.core.policy import PolicyLimits
from lagbench.core.scenario import Slos
from lagbench.core.telemetry import Record
from lagbench.core.verdict import CLAIM, slo_of


def live_slos(slos: Slos) -> list[LiveSlo]:
    """Return the SLOs that have a limit, in the order of the scenario."""
    return [_live_slo(name, limit) for name, limit in _limits(slos).items()]


class SlosSoFar:
    """Takes records; returns the standing of each SLO that has a limit."""

    def __init__(
        self, slos: Slos, cell: LiveCell, limits: PolicyLimits, *, reports_owners: bool = True
    ) -> None:
        """Start before the stream: every SLO is open.

        Without ``reports_owners`` no reading shows that a pod got a partition, so the reaction is
        left to the end.
        """
        self._reports_owners = reports_owners
        self._limits = _limits(slos)
        self._replicas = ReplicasSoFar(cell)
        self._spikes = SpikesSoFar(cell, limits)
        self._has_started = False

    def start(self, stream_started_at: int) -> None:
        """Take the instant of the stream's start (unix ns)."""
        self._has_started = True
        self._replicas.start(stream_started_at)
        self._spikes.start(stream_started_at)

    def take(self, record: Record) -> None:
        """Update with a record."""
        self._replicas.take(record)
        self._spikes.take_pods(record)

    def take_lag(self, at: int, total: int | None) -> None:
        """Update with the total lag at ``at`` (unix ns)."""
        self._spikes.take_lag(at, total)

    def standings(self, now: int) -> dict[str, SloStanding]:
        """Return the standing of each SLO at ``now`` (unix ns), by its name."""
        return {name: self._shown(name, limit, now) for name, limit in self._limits.items()}

    def _shown(self, name: str, limit: float, now: int) -> SloStanding:
        shown: SloStanding = None, "at_end"
        if not self._has_started:
            shown = None, "open"
        elif name == "flips":
            shown = _at_most(self._replicas.flips(now), limit)
        elif name == "pod_minutes":
            shown = _at_most(self._replicas.pod_minutes(now), limit)
        elif name == "baseline_at_floor":
            shown = None, "broken" if self._replicas.was_off_floor else "holds"
        elif name == "reaction_seconds" and self._reports_owners:
            shown = _wait(self._spikes.reaction(now), limit)
        elif name == "drain_seconds":
            shown = _wait(self._spikes.drain(now), limit)
        return shown


def _at_most(value: float | None, limit: float) -> SloStanding:
    if value is None:
        return None, "open"
    return round(value, 1), "broken" if value > limit else "holds"


def _wait(wait: tuple[float, bool] | None, limit: float) -> SloStanding:
    """Judge a wait: its seconds so far, and whether it has ended; None: it has not begun."""
    if wait is None:
        return None, "open"
    seconds, has_ended = wait
    if seconds > limit:
        return round(seconds, 1), "broken"
    return round(seconds, 1), "holds" if has_ended else "open"


def _limits(slos: Slos) -> dict[str, float]:
    """Return the limit of each SLO that has one, by its name; True: the claim must hold."""
    given = slos.model_dump().items()
    return {name: limit for name, limit in given if limit is not None and limit is not False}


def _live_slo(name: str, limit: float) -> LiveSlo:
    named, is_claim = NAMED.get(name), limit is True
    return LiveSlo(
        name=name,
        title=name.replace("_", " ").capitalize() if named is None else named.title,
        limit=CLAIM if is_claim or named is None else slo_of(name, limit).threshold,
        unit="" if named is None else named.unit,
    )
