"""The measures of one run: the models of ``measures.json``.

Everything here is computed from the run folder alone and can be recomputed. Instants are unix
nanoseconds and end in ``_at``. ``None`` means not measured.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, get_args

from pydantic import model_validator

from lagbench.core.measures.accounting.accounting import Accounting
from lagbench.core.measures.doubts.doubt_rules import Validity
from lagbench.core.measures.doubts.doubts_of_policy import EVERYTHING, Doubt
from lagbench.core.measures.drain import Drain
from lagbench.core.measures.evidence.group_strangers import GroupStranger
from lagbench.core.measures.evidence.lag_readings import TelemetryGap
from lagbench.core.measures.evidence.observed_group import Observation
from lagbench.core.measures.evidence.played_actions import PlayedAction
from lagbench.core.measures.evidence.producer_report import LoadWindow
from lagbench.core.measures.lag_over_time import Lag
from lagbench.core.measures.model import Fidelity, MeasureModel, NamedMeasure
from lagbench.core.measures.pod_use import PaidForItself, StartCost
from lagbench.core.measures.reaction import Reaction
from lagbench.core.measures.rebalance_summary import Rebalances
from lagbench.core.measures.run_end import EndState, ObserverCost
from lagbench.core.measures.scaling import Scaling
from lagbench.core.measures.spark_measures import SparkMeasures
from lagbench.core.measures.standstill import Standstill
from lagbench.core.scenario.consumer_kinds import KindName
from lagbench.core.scenario.own_consumer import LevelName


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


def _collected() -> Iterator[NamedMeasure[Measures]]:
    for part, field in Measures.model_fields.items():
        for kind in (field.annotation, *get_args(field.annotation)):
            if isinstance(kind, type) and issubclass(kind, MeasureModel):
                yield from (_of_run(part, measure) for measure in kind.named)


def _of_run(part: str, measure: NamedMeasure[Any]) -> NamedMeasure[Measures]:
    """Return a part's measure as one that is read from a whole run."""
    interval = None if measure.interval is None else _within(part, measure.interval)
    return replace(measure, read=_within(part, measure.read), interval=interval, part=part)


def _within(part: str, read: Callable[[Any], Any]) -> Callable[[Measures], Any]:
    """Return ``read`` on the field ``part``; a run without that part gives None."""

    def of_run(measures: Measures) -> Any:
        found = getattr(measures, part)
        return None if found is None else read(found)

    return of_run


NAMED = {measure.name: measure for measure in _collected()}
"""The measures of one run, by name."""
