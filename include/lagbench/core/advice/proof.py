"""Set what real runs of an advice's policies showed beside what the advice had said of them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Literal

from lagbench.core.measures.measures import NAMED, Measures
from lagbench.core.measures.model import MeasureModel
from lagbench.core.simulation.prediction import Residual, residual_of
from lagbench.core.simulation.simulation_measures import Spread
from lagbench.core.verdict.verdict import Verdict

Role = Literal["pick", "runner_up", "present"]
"""Names of the cells of the experiment that proves an advice."""
ROLES: Mapping[Role, str] = {"pick": "pick", "runner_up": "runner-up", "present": "present policy"}
Held = Literal["pass", "fail", "undetermined"]


class ProvedRun(MeasureModel):
    """One rehearsal of a policy of the advice."""

    run_id: str
    pair: int  # from 1
    seed: int
    verdict: Held  # on the advice's SLOs; that of the run judges its scenario's others, too
    reason: str
    measures: tuple[Residual, ...]  # predicted: for the phase of the run


class ProvedPolicy(MeasureModel):
    """One policy of the advice on one scenario, and its rehearsals."""

    scenario: str
    role: Role
    candidate: str
    planned: int  # rehearsals
    verdict: Held  # fail: one broke an SLO; undetermined: none did, and one is missing or unsure
    runs: tuple[ProvedRun, ...]  # those with a result, by pair

    @property
    def title(self) -> str:
        """Return which policy it is."""
        return f"{ROLES[self.role]} {self.candidate}"


def proved_run(
    verdict: Verdict,
    measures: Measures,
    *,
    pair: int,
    slos: Collection[str],
    predicted: Mapping[str, Spread],
) -> ProvedRun:
    """Return the row of a run that was judged by the SLOs of those names, too.

    :param predicted: by measure; those that runs do not have are left out.
    """
    judged = [one for one in verdict.slos if one.name in slos]
    statuses = [one.status for one in judged]
    held = held_by(statuses, planned=len(slos))
    deciding = (one for one in judged if (one.status == "pass") is (held == "pass"))
    return ProvedRun(
        run_id=verdict.run_id,
        pair=pair,
        seed=measures.seed,
        verdict=held,
        reason="; ".join(f"{one.title} {one.value_text}: {one.reason}" for one in deciding),
        measures=tuple(
            residual_of(name, one, measures) for name, one in predicted.items() if name in NAMED
        ),
    )


def held_by(statuses: Collection[str], *, planned: int) -> Held:
    """Return the verdict of several: one that failed decides, and a missing one leaves it open."""
    if any(status in ("fail", "warn") for status in statuses):
        return "fail"
    is_whole = len(statuses) >= planned > 0 and all(status == "pass" for status in statuses)
    return "pass" if is_whole else "undetermined"
