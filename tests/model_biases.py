"""``python -m tests.model_biases``: the tables of docs/findings/model_error, from what it keeps.

``--simulate HOW`` simulates the kept runs of tests.model_error and prints the rows to keep. HOW is
a name of OFF, whose correction is switched off in the code of today, ``today``, or ``before``: the
same file copied into a worktree of BEFORE plays them with the simulator before all corrections.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from math import inf
from unittest.mock import patch

import numpy as np
import yaml

from lagbench.adapters.runs.experiment_folder import ExperimentFolder
from lagbench.core.measures.measures import NAMED, Measures
from lagbench.core.scenario.actions import rebalance_protocol
from lagbench.core.scenario.scenario import Scenario
from lagbench.core.simulation import simulated_world, simulation_measures
from lagbench.core.simulation.backlog import Backlog
from lagbench.core.simulation.model_error import error_of
from lagbench.core.simulation.prediction import PHASES
from lagbench.core.simulation.simulated_world import SimulatedEnvironment
from tests import model_error

BEFORE = "0c0a8b20"
"""The last commit before the corrections; a3b177ae has all of them but that of the phase."""
KEPT = model_error.FINDINGS / "model_error" / "simulated.csv.gz"
OFF_DRAWS = 2
"""Simulations of a run with a correction switched off; else PHASES."""
DIGITS = "{:.6g}".format
"""Of a value that is kept."""
NEAR_A_SYNC = ("reaction_parts", "spark_consumer")
"""Of the fitting half, with a crossing beside a sync, which no run of the half left out has."""
MEASURES = {**model_error.MEASURES, "rebalances": False}


@contextmanager
def _one_handover() -> Iterator[None]:
    at_once, all_of_it = (0.0, 0.0), (0.4, 0.4)
    one = simulated_world.Handover(at_once, all_of_it, all_of_it, at_once, all_of_it)
    with patch.dict(simulated_world.HANDOVERS, dict.fromkeys(simulated_world.HANDOVERS, one)):
        yield


@contextmanager
def _read_otherwise() -> Iterator[None]:
    """Let what is done be committed at once, and each join be a rebalance of its own."""
    with (
        patch.object(Backlog, "committed_at", lambda self, partition, seconds: seconds),
        patch.object(simulation_measures, "QUIET_SECONDS", -inf),
    ):
        yield


@contextmanager
def _phase_is_a_point() -> Iterator[None]:
    with patch("lagbench.core.simulation.prediction.PHASE_ERROR_SECONDS", 0.0):
        yield


@contextmanager
def _assumed_times() -> Iterator[None]:
    """Let a sync take 0.015 s, as on a cluster, and a stop the half second that was assumed."""
    of_times = partial(
        SimulatedEnvironment, hpa_sync_seconds=15.015, hpa_scale_seconds=0.0, stop_seconds=0.5
    )
    with patch.object(model_error, "SimulatedEnvironment", of_times):
        yield


OFF: Mapping[str, tuple[Callable[[], AbstractContextManager[None]], tuple[str, ...]]] = {
    "handover": (_one_handover, ("reaction_seconds", "drain_seconds")),
    "reading": (_read_otherwise, ("peak_lag_records", "rebalances")),
    "phase": (_phase_is_a_point, ("reaction_seconds",)),
    "times": (_assumed_times, ("pod_minutes",)),
}
"""How a correction is switched off, and the measures that it is about."""


def played_runs(how: str) -> Iterator[model_error.Played]:
    """Yield the runs that HOW simulates: of the half left out, of NEAR_A_SYNC, and later ones."""
    if how != "phase":
        yield from model_error.played_runs("left_out")
    if how == "today":
        yield from model_error.played_runs("later")
    if how not in OFF or how == "phase":
        fitting = model_error.played_runs("fitting")
        yield from (run for run in fitting if run.experiment in NEAR_A_SYNC)


def simulate(how: str) -> Iterator[tuple[str, ...]]:
    """Yield HOW, experiment, run, measure, and the draws' lowest, median and highest value."""
    off, measures = OFF.get(how, (nullcontext, tuple(MEASURES)))
    draws = OFF_DRAWS if how in OFF else PHASES
    with patch.dict(model_error.MEASURES, MEASURES), off():
        for run in played_runs(how):
            found = model_error.compared([run], draws)
            for name in measures:
                for row in found[name]:  # none, or one
                    drawn = (min(row.simulated), row.predicted, max(row.simulated))
                    yield (how, run.experiment, run.run_id, name, *map(DIGITS, drawn))


@dataclass(frozen=True, slots=True)
class Row:
    """A measure of a kept run: the draws' ends and median, and what was measured."""

    protocol: str | None
    low: float
    median: float
    high: float
    measured: float
    is_relative: bool

    @property
    def residual(self) -> float:
        """Measured - simulated, or its share of the simulated."""
        off = self.measured - self.median
        return off / self.median if self.is_relative else off

    @property
    def beyond(self) -> float:
        """How far the measured value lies outside all draws."""
        return max(self.low - self.measured, self.measured - self.high, 0.0)


Kept = Mapping[tuple[str, str, str], Sequence[Row]]
"""By HOW, measure and set of model_error.SPLIT: the runs whose phase is known."""


def written() -> list[list[str]]:
    """Read the rows that are kept."""
    with gzip.open(KEPT, "rt", encoding="utf-8") as file:
        return list(csv.reader(file))


def kept() -> Kept:
    """Return what is kept beside the measures of its runs."""
    rows = written()
    runs: dict[tuple[str, str], tuple[Measures, str | None]] = {}
    sets = {one: name for name, each in model_error.split().items() for one in each}
    for experiment in {row[1] for row in rows}:
        for run in ExperimentFolder(model_error.FINDINGS / experiment).runs():
            if model_error.phase_of(run.files) is not None:
                scenario = Scenario.model_validate(yaml.safe_load(run.files["scenario"]))
                protocol = rebalance_protocol(scenario.consumer.balancer)
                measures = Measures.model_validate(run.files["measures"])
                runs[experiment, run.run_id] = measures, protocol
    found: dict[tuple[str, str, str], list[Row]] = defaultdict(list)
    for how, experiment, run_id, name, *drawn in rows:
        if (experiment, run_id) in runs:
            measures, of_run = runs[experiment, run_id]
            measured = NAMED[name].read(measures)
            low, median, high = map(float, drawn)
            if measured is not None:
                # Rounded alike: a fixed number of pods is held by draws that all have it.
                measured = float(DIGITS(measured))
                row = Row(of_run, low, median, high, measured, MEASURES[name])
                found[how, name, sets[experiment]].append(row)
    return found


AIMS = {"reaction_seconds": 0.3, "drain_seconds": 0.7, "peak_lag_records": 0.04}
"""The most that the median may be off."""
HELD, WIDTH = (0.85, 0.95), 2.0
"""The share of the runs that the 90 % range is to hold; its width by that of the residuals."""
FAR_SECONDS = 3.0


def aims_table(of: Kept) -> str:
    """Return each measure of the half left out before and after all corrections."""
    heads = ("measure", "runs", "median before", "after", "5 to 95 % before", "after")
    rows = []
    for name in MEASURES:
        before, today = of["before", name, "left_out"], of["today", name, "left_out"]
        texts = [
            text
            for of_both in zip(*(_residuals(name, one) for one in (before, today)), strict=True)
            for text in of_both
        ]
        held = f"{sum(one.beyond == 0 for one in before)} of {len(before)}"  # by the draws
        first = (NAMED[name].title, str(len(today)))
        rows.append((*first, *texts, held, *_range(name, today)))
    return _table((*heads, "range holds before", "after", "width", "aims"), rows)


def later_table(of: Kept) -> str:
    """Return each measure of the second set that is held out."""
    heads = ("measure", "runs", "median", "5 to 95 %", "range holds", "width", "aims")
    rows = []
    for name in MEASURES:
        later = of["today", name, "later"]
        first = (NAMED[name].title, str(len(later)))
        rows.append((*first, *_residuals(name, later), *_range(name, later)))
    return _table(heads, rows)


def _residuals(name: str, rows: Sequence[Row]) -> tuple[str, str]:
    """Return the median, and 5 to 95 %."""
    found = np.quantile([one.residual for one in rows], (0.5, 0.05, 0.95)).tolist()
    middle, low, high = (_signed(name, one) for one in found)
    return middle, f"{low} to {high}"


def _range(name: str, rows: Sequence[Row]) -> tuple[str, str, str]:
    """Return what the range holds, its width and the aims."""
    error = error_of(name)
    if error is None:
        return "–", "–", "–"
    ends = [(*error.interval(one.low, one.high), one) for one in rows]
    held = sum(low <= one.measured <= high for low, high, one in ends)
    by = [(high - low) / (one.median if one.is_relative else 1) for low, high, one in ends]
    low, median, high = np.quantile([one.residual for one in rows], (0.05, 0.5, 0.95))
    width = float(np.median(by) / (high - low))
    missed = [
        word
        for word, is_met in (
            ("median", name not in AIMS or abs(median) <= AIMS[name]),
            ("range", HELD[0] <= held / len(rows) <= HELD[1]),
            ("width", width <= WIDTH),
        )
        if not is_met
    ]
    aims = f"missed: {', '.join(missed)}" if missed else "met"
    return f"{held} of {len(rows)} ({100 * held / len(rows):.0f} %)", f"{width:.2f} x", aims


def biases_table(of: Kept) -> str:
    """Return each bias before, with its correction alone switched off, and after."""
    heads = ("bias", "what is compared", "runs", "before all", "this one off", "after")
    rows = []
    for bias, off, name, protocol, what, value in BIASES:
        cells = []
        for how in ("before", off, "today"):
            of_set = of[how, name, "fitting" if off == "phase" else "left_out"]
            found = [one for one in of_set if protocol in ("", one.protocol)]
            cells.append(value(name, found) if found else "–")
        of_protocol = f", {protocol}" if protocol else ""
        title = f"{NAMED[name].title}{of_protocol}, {what}"
        rows.append((bias, title, str(len(found)), *cells))
    return _table(heads, rows)


def _median(name: str, rows: Sequence[Row]) -> str:
    return _signed(name, float(np.median([one.residual for one in rows])))


def _sizes(name: str, rows: Sequence[Row]) -> str:
    middle, most = np.quantile([abs(one.residual) for one in rows], (0.5, 0.95))
    return f"{_signed(name, float(middle))}, {_signed(name, float(most))}".replace("+", "")


def _far(_name: str, rows: Sequence[Row]) -> str:
    return str(sum(one.beyond > FAR_SECONDS for one in rows))


SIZE = "size: median, 95 %"
BIASES: Sequence[tuple[str, str, str, str, str, Callable[[str, Sequence[Row]], str]]] = (
    *(
        ("one handover for all protocols", "handover", name, protocol, "median", _median)
        for name in ("reaction_seconds", "drain_seconds")
        for protocol in ("cooperative", "eager", "consumer")
    ),
    ("work done counts as committed", "reading", "peak_lag_records", "", "median", _median),
    ("each join is a rebalance", "reading", "rebalances", "", "median", _median),
    ("one assignor for all groups", "", "time_lag_p99_seconds", "", SIZE, _sizes),
    ("assumed times of syncs and stops", "times", "pod_minutes", "", SIZE, _sizes),
    (
        "the sync is a point",
        "phase",
        "reaction_seconds",
        "",
        f"above {FAR_SECONDS:g} s outside all draws",
        _far,
    ),
)


def _signed(name: str, value: float) -> str:
    if MEASURES[name]:
        return f"{100 * value:+.1f} %"
    unit = NAMED[name].unit
    return f"{value:+.2f} {unit}" if unit else f"{value:+.0f}"


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(row)} |" for row in lines)


def main() -> None:
    """Print the page's tables, or rows to keep."""
    parser = argparse.ArgumentParser(prog="python -m tests.model_biases", description=__doc__)
    parser.add_argument("--simulate", choices=("before", "today", *OFF))
    how = parser.parse_args().simulate
    if how is not None:
        csv.writer(sys.stdout, lineterminator="\n").writerows(simulate(how))
    else:
        of = kept()
        sys.stdout.write(f"{aims_table(of)}\n\n{later_table(of)}\n\n{biases_table(of)}\n")


if __name__ == "__main__":
    main()
