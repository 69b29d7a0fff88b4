"""The measures of one run: the models of ``measures.json``.

Everything here is computed from the run folder alone and can be recomputed. Instants are unix
nanoseconds and end in ``_at``. ``None`` means not measured.
"""

from __future__ import annotations

from typing import Any

from pydantic import model_validator

from lagbench.core.measures.accounting.accounting import Accounting
from lagbench.core.measures.doubts.doubt import EVERYTHING, Doubt
from lagbench.core.measures.doubts.rules import Validity
from lagbench.core.measures.end_state import EndState
from lagbench.core.measures.evidence.actions import PlayedAction
from lagbench.core.measures.evidence.gaps import TelemetryGap
from lagbench.core.measures.evidence.group_strangers import GroupStranger
from lagbench.core.measures.evidence.load_window import LoadWindow
from lagbench.core.measures.evidence.observation import Observation
from lagbench.core.measures.lag.drain import Drain
from lagbench.core.measures.lag.lag import Lag
from lagbench.core.measures.model import Fidelity, MeasureModel
from lagbench.core.measures.observer_cost import ObserverCost
from lagbench.core.measures.pods.paid_for_itself import PaidForItself
from lagbench.core.measures.pods.start_cost import StartCost
from lagbench.core.measures.reaction.chain import Reaction
from lagbench.core.measures.rebalance.standstill import Standstill
from lagbench.core.measures.rebalance.summary import Rebalances
from lagbench.core.measures.scaling import Scaling
from lagbench.core.measures.spark import SparkMeasures
from lagbench.core.scenario.accounting_level import LevelName
from lagbench.core.scenario.consumer_kind import KindName


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
