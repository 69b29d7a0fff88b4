"""``python -m tests.step_dips``: every scale step of the kept runs, by what goes with a deep dip.

It prints the table of docs/findings/step_dip_causes.md, and with ``--figure`` writes its picture.
Counted are stand-ins with cooperative-sticky that are dynamic and leave gracefully.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

import yaml

from lagbench.adapters.runs.experiment_folder import RUNS_FILE, ExperimentFolder, KeptRun
from lagbench.core.compare.experiment import ExpectedValue
from lagbench.core.compare.experiment_figure import STEP_LOOKS, Mark, Panel, drawn
from lagbench.core.measures.measures import Measures
from lagbench.core.measures.model import NANOSECONDS, StepValue
from lagbench.core.measures.rebalance_episodes import SCALE_STEPS, RebalanceEpisode
from lagbench.core.measures.scale_steps import dip_of
from lagbench.core.scenario.offered_load import offered_load
from lagbench.core.scenario.scenario import Scenario

FINDINGS = Path(__file__).resolve().parents[1] / "docs" / "findings"
UNTIL = datetime(2026, 11, 29, tzinfo=UTC)
"""Later runs are not counted, so that the page stays true when one is kept."""
LIMIT = ExpectedValue(at_most=20)
BUSY_SHARE = 0.9
"""Of what the pods that were there can do: a pod that gives partitions up then works on others."""
CAUGHT_UP = 1.15
"""Times the base rate: above it a backlog is worked off."""
SECOND_ROUND_SECONDS = 0.75
"""One rebalance of a step down takes 0.2 to 0.6 s, two of them above 1 s."""
MANY_PODS = 8
ROWS = (
    "up, pods busy",
    "up, pods with time to spare",
    "down, caught up",
    "down, with a backlog",
    "down, two rebalances",
)


@dataclass(frozen=True, slots=True)
class Step:
    """One step: its row, its dip, and where it is kept."""

    row: str
    dip: StepValue
    run_id: str
    number: int
    joined: int  # pods
    seconds: float | None  # that the rebalances took

    @property
    def holds(self) -> bool | None:
        """Return whether it dipped by 20 % at most; None: its precision leaves it open."""
        bounds = self.dip.bounds
        return None if bounds is None else LIMIT.holds(*bounds)


def is_above(step: Step) -> bool:
    """Return whether it was read above 20 %, within its noise or not."""
    return step.holds is not True


def kept_steps() -> Iterator[Step]:
    """Yield every measured step of the runs that are counted."""
    for file in sorted(FINDINGS.rglob(RUNS_FILE)):
        for run in ExperimentFolder(file.parent).runs():
            yield from _of_run(run)


def _of_run(run: KeptRun) -> Iterator[Step]:
    if "scenario" not in run.files:
        return  # of an own consumer, which reports no members
    scenario = Scenario.model_validate(yaml.safe_load(run.files["scenario"]))
    consumer = scenario.consumer
    is_counted = (
        consumer.kind == "stand-in"
        and consumer.balancer == "cooperative-sticky"
        and consumer.graceful_shutdown
        and not consumer.static_membership
    )
    if not is_counted:
        return
    measures = Measures.model_validate(run.files["measures"])
    if (measures.load.stream_started_at or 0) >= UNTIL.timestamp() * NANOSECONDS:
        return
    for step in measures.rebalances.steps(*SCALE_STEPS):
        if step.dip_percent is not None:
            yield Step(
                row=_row(step, scenario),
                dip=dip_of(step),
                run_id=run.run_id,
                number=step.number,
                joined=len(step.pods_joined),
                seconds=step.duration_seconds,
            )


def _row(step: RebalanceEpisode, scenario: Scenario) -> str:
    expected = step.expected_rate_per_second or 0.0
    if step.trigger == "scale_up":
        most = step.members_before * (scenario.consumer.pod_rate_per_second or float("inf"))
        return ROWS[0] if expected >= BUSY_SHARE * most else ROWS[1]
    if (step.duration_seconds or 0.0) >= SECOND_ROUND_SECONDS:
        return ROWS[4]
    return ROWS[2] if expected <= CAUGHT_UP * offered_load(scenario.profile).base_rate else ROWS[3]


def table(steps: list[Step]) -> list[str]:
    """Return the rows of the page."""
    lines = []
    for row in (*ROWS, "all"):
        own = [step for step in steps if row in (step.row, "all")]
        values = [step.dip.value for step in own if step.dip.value is not None]
        holds = [step.holds for step in own]
        above = len(own) - holds.count(True)
        counts = f"{len(own)} | {above} ({100 * above / len(own):.0f} %) | {holds.count(False)}"
        lines.append(f"| {row} | {counts} | {median(values):.1f} % | {max(values):.0f} % |")
    return lines


def of_joins(steps: list[Step]) -> str:
    """Return how the steps up of many pods dipped, and how long those of one pod took."""
    many = [step for step in steps if step.row == ROWS[0] and step.joined >= MANY_PODS]
    single = [step.seconds for step in steps if step.joined == 1 and step.seconds is not None]
    return (
        f"{sum(map(is_above, many))} of {len(many)} steps of a busy group that {MANY_PODS} pods or "
        f"more join; the {len(single)} steps up of one pod took {median(single):.1f} s, "
        f"{max(single):.1f} s at most"
    )


def figure(steps: list[Step]) -> str:
    """Return the strip of all steps."""
    rows: dict[str, list[Mark]] = {row: [] for row in ROWS}
    for step in steps:
        value, look = step.dip.value or 0.0, STEP_LOOKS[step.holds]
        said = f"{step.run_id}, rebalance {step.number}: {value:.1f} %, {look.said}"
        rows[step.row].append(Mark(value, value, value, look, said))
    panel = Panel("rebalance_dip_percent", rows, LIMIT.numbers, is_of_steps=True)
    return drawn("The dip of each kept scale step", [panel])


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--figure", type=Path, help="write the picture to this file")
    given = parser.parse_args()
    steps = list(kept_steps())
    runs = {step.run_id for step in steps}
    missed = {step.run_id for step in steps if is_above(step)}
    said = f"{len(steps)} steps in {len(runs)} runs; above 20 % in {len(missed)} runs"
    sys.stdout.write("\n".join([*table(steps), said, of_joins(steps), ""]))
    if given.figure is not None:
        given.figure.write_text(figure(steps), encoding="utf-8")


if __name__ == "__main__":
    main()
