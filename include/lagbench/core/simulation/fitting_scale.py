"""Find the highest rate scale at which a machine carries a cell."""

from __future__ import annotations

from collections.abc import Sequence

from lagbench.core.policy.policy import Policy
from lagbench.core.policy.rate_scale import scaled
from lagbench.core.scenario.scenario import Scenario
from lagbench.core.simulation.plan import cannot_carry, plan_cell
from lagbench.errors import WrongInput

_SCALES = (0.5, 0.25, 0.2, 0.1, 0.05, 0.04, 0.02, 0.01, 0.005, 0.002, 0.001)


def fitting_scale(
    groups: Sequence[tuple[Scenario, Policy]], cores: int, speed: float
) -> tuple[float | None, str]:
    """Return the highest of some scales at which the machine carries the groups' peak.

    None: at none of them, and the text says why; else it is empty.
    """
    why = "the pods' own CPU does not fall with the rate"
    for scale in _SCALES:
        try:
            plans = [plan_cell(*scaled(scenario, policy, scale)) for scenario, policy in groups]
        except WrongInput as error:
            why = str(error)
            continue
        if not cannot_carry(*plans, cores=cores, speed=speed):
            return scale, ""
    return None, why
