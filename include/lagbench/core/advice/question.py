"""Read a question to the advisor, and reject those that it cannot or must not answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from math import ceil, inf

import lagbench
from lagbench.core.advice.job import Place, digest
from lagbench.core.advice.model import AskedSlo
from lagbench.core.hpa.controller_flags import DEFAULT_KUBERNETES, KUBERNETES_VERSIONS
from lagbench.core.policy.policy import Policy
from lagbench.core.policy.policy_limits import PolicyLimits
from lagbench.core.scenario.offered_load import offered_load
from lagbench.core.scenario.scenario import Scenario
from lagbench.core.scenario.stream_tail import spikes_of
from lagbench.core.simulation.model_error import ModelError, error_of
from lagbench.core.simulation.predicted_slos import OF_SPIKES, SIMULATED_SLOS
from lagbench.core.simulation.simulate import left_out
from lagbench.core.simulation.simulated_world import SimulatedEnvironment
from lagbench.errors import WrongInput

LEAST_BUDGET = 8
FLIPS = "flips"
"""The SLO that has no residuals: a margin of whole flips would be arbitrary."""
_CHANGES_THE_QUESTION = ("swap_policy", "grow_partitions")
"""Actions that the simulator plays, and that leave no one policy or topic to advise on."""


@dataclass(frozen=True)
class Question:
    """``slos``: all must hold, the first is the front's axis; ``present``: the user's policy."""

    scenarios: Sequence[Scenario]
    slos: Sequence[AskedSlo]
    present: Policy | None = None
    rivals: Mapping[str, Policy] = field(default_factory=dict)
    environment: SimulatedEnvironment = SimulatedEnvironment()  # noqa: RUF009 - frozen
    min_replicas: int | None = None
    max_replicas: int | None = None
    kubernetes: str | None = None  # None: that of the present policy, else the default
    budget: int = 10_000  # candidates
    draws: tuple[int, ...] = (2, 5, 20, 60)  # of each stage, those before included
    code: str = lagbench.__version__  # of the simulator, for the keys of the jobs
    errors: Mapping[str, ModelError] | None = None  # None: those of the simulator

    @property
    def key(self) -> str:
        """Name all that an answer depends on; the residuals are those of the code."""
        policies = {"": self.present, **self.rivals}
        return digest(
            {
                "scenarios": [one.model_dump(mode="json") for one in self.scenarios],
                "slos": [one.model_dump() for one in self.slos],
                "policies": {name: one and one.manifest for name, one in policies.items()},
                "environment": asdict(self.environment),
                "bounds": (self.min_replicas, self.max_replicas, self.version),
                "effort": (self.budget, self.draws, self.code),
            }
        )

    def error_of(self, slo: str) -> ModelError | None:
        """Return how far real runs are from the simulated measure; None: it is not known."""
        return error_of(slo) if self.errors is None else self.errors.get(slo)

    @property
    def version(self) -> str:
        """The version of Kubernetes that the candidates are for."""
        if self.kubernetes is not None:
            return self.kubernetes
        present = self.present
        return DEFAULT_KUBERNETES if present is None else present.limits.flags.version

    @property
    def places(self) -> dict[str, Place]:
        """The scenarios under the one environment, by their names."""
        around, code = self.environment, self.code
        return {one.name: Place(one.name, one, around, code) for one in self.scenarios}

    @property
    def partitions(self) -> int:
        """The fewest partitions of the scenarios: more pods are of no use in one of them."""
        return min(one.partitions for one in self.scenarios)

    @property
    def most_replicas(self) -> int:
        """The ceiling of every candidate."""
        return self.partitions if self.max_replicas is None else self.max_replicas

    def allows(self, limits: PolicyLimits) -> bool:
        """Return whether a policy is within the bounds that were asked."""
        least, most = self.min_replicas, self.max_replicas
        is_below = least is not None and limits.floor_replicas < least
        return not is_below and (most is None or limits.ceiling_replicas <= most)


def check_question(question: Question) -> None:
    """Reject what cannot be meant.

    :raises WrongInput: an SLO that no simulation judges, contradicting bounds, names that repeat.
    """
    for field_name, value, allowed in _problems(question):
        raise WrongInput(where="advise", field=field_name, value=value, allowed=allowed)


def _problems(question: Question) -> Iterator[tuple[str, object, str]]:
    """Yield field, value and what is allowed."""
    if not question.slos or not question.scenarios:
        yield "SCENARIO" if question.slos else "--slo", "none", "at least one"
    for slo in question.slos:
        if slo.name not in SIMULATED_SLOS:
            yield "--slo", slo.name, f"of {', '.join(SIMULATED_SLOS)}"
        if not (slo.limit > 0 or (slo.name == FLIPS and slo.limit == 0)):
            yield "--slo", f"{slo.name}={slo.limit:g}", "a limit above 0"
    names = [*(slo.name for slo in question.slos), *(one.name for one in question.scenarios)]
    for name in Counter(names) - Counter({*names}):
        yield "--slo" if name in SIMULATED_SLOS else "SCENARIO", name, "each name once"
    least, most, partitions = question.min_replicas, question.max_replicas, question.partitions
    if most is not None and not 1 <= most <= partitions:
        yield "--max", most, f"from 1 to {partitions}, the partitions"
    if least is not None and not 0 <= least <= question.most_replicas:
        what = "the partitions" if most is None else "--max"
        yield "--min", least, f"from 0 to {question.most_replicas}, {what}"
    if question.budget < LEAST_BUDGET:
        yield "--candidates", question.budget, f"at least {LEAST_BUDGET}"
    if question.version not in KUBERNETES_VERSIONS:
        yield "--kubernetes", question.version, " or ".join(KUBERNETES_VERSIONS)


def refusals(question: Question) -> Iterator[str]:
    """Yield why the simulator cannot promise anything here, a sentence each."""
    for scenario in question.scenarios:
        parts = {*left_out(scenario)}
        parts |= {one.kind for one in scenario.actions if one.kind in _CHANGES_THE_QUESTION}
        if parts:
            yield f"{scenario.name}: the simulator cannot promise {', '.join(sorted(parts))}"
        if scenario.consumer.pod_rate_per_second is None:
            yield f"{scenario.name}: the rate of a pod is not known (consumer.process_ms is 0)"
    for slo in question.slos:
        if slo.name in OF_SPIKES and not any(map(_has_spike, question.scenarios)):
            names = ", ".join(one.name for one in question.scenarios)
            yield f"{names}: no spike, so there is no {slo.slo.title.lower()} to judge"
        if question.error_of(slo.name) is None and slo.name != FLIPS:
            yield f"no run has shown how far {slo.name} is from its simulation, so no margin"


def _has_spike(scenario: Scenario) -> bool:
    """Return whether the load ever needs more pods than its base rate does."""
    rate = scenario.consumer.pod_rate_per_second or inf
    pods = max(1, ceil(offered_load(scenario.profile).base_rate / rate))
    return bool(spikes_of(scenario, started_replicas=pods))
