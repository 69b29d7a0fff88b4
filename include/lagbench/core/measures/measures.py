"""The measures of one run: the models of ``measures.json``.

Everything here is computed from the run folder alone and can be recomputed. Instants are unix
nanoseconds and end in ``_at``. ``None`` means not measured.
"""

from __future__ import annotations

from typing import Any

from pydantic import model_validator

from lagbench.core.measures.accounting import Accounting
from lagbench.core.measures.doubts import EVERYTHING, Doubt, Validity
from lagbench.core.measures.end_state import EndState
from lagbench.core.measures.evidence import (
    GroupStranger,
    LoadWindow,
    Observation,
    PlayedAction,
    TelemetryGap,
)
from lagbench.core.measures.lag import Drain, Lag
from lagbench.core.measures.model import Fidelity, MeasureModel
from lagbench.core.measures.observer_cost import ObserverCost
from lagbench.core.measures.pods import PaidForItself, StartCost
from lagbench.core.measures.reaction import Reaction
from lagbench.core.measures.rebalance import Rebalances, Standstill
from lagbench.core.measures.scaling import Scaling
from lagbench.core.measures.spark import SparkMeasures
from lagbench.core.scenario import KindName, LevelName


class Measures(MeasureModel):
    """All measures of one run."""

    run_id: str
    scenario: str
    policy: str
    seed: int
    fidelity: Fidelity
    balancer: str
    measured_from_at: int | None
    measured_until_at: int | None
    run_seconds: float | None
    load: LoadWindow
    validity: Validity
    reaction: Reaction
    lag: Lag
    drain: Drain
    rebalances: Rebalances
    scaling: Scaling
    paid_for_itself: PaidForItself
    accounting: Accounting
    observer_cost: ObserverCost
    start_cost: StartCost = StartCost()
    end_state: EndState
    group_strangers: tuple[GroupStranger, ...] = ()
    group_gaps: tuple[TelemetryGap, ...] = ()  # in which the group's members are unknown
    actions: tuple[PlayedAction, ...] = ()  # of the scenario, as they were played
    standstill: Standstill | None = None  # None: measured before this field existed
    work_unknown: str = ""  # gaps in the records of the group's work; empty: none
    doubts: tuple[Doubt, ...] = ()  # why parts of it do not show what the policy did
    consumer_kind: KindName = "stand-in"
    accounting_level: LevelName | None = None  # None: lagbench's own consumers report everything
    observation: Observation | None = None  # None: the run made its own load
    spark: SparkMeasures | None = None  # None: the consumer does not run on Spark

    @model_validator(mode="before")
    @classmethod
    def _of_older_versions(cls, content: Any) -> Any:
        """Read what older versions wrote: contradictions without their parts, a second count."""
        if not isinstance(content, dict) or "doubts" in content:
            return content
        texts = content.get("contradictions") or ()
        doubts = [Doubt(code="contradiction", about=EVERYTHING, text=text) for text in texts]
        gone = ("contradictions", "rate_doubt")
        return {name: of for name, of in content.items() if name not in gone} | {"doubts": doubts}

    @property
    def spikes_unknown(self) -> str:
        """Why it is not known whether the load had a spike; empty: it is known.

        The plan of a run marks its spikes. Those of an observed load are what one pod cannot take.
        """
        if self.observation is None or self.observation.pod_rate_per_second is not None:
            return ""
        return "without the rate of one pod (--pod-rate) it is not known whether there was a spike"
