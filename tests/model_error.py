"""``python -m tests.model_error [PART]``: simulate kept runs beside what was measured.

It prints the residuals of that part of the split, with ``--table`` the table that stands in
``core/simulation/model_error.py``. tests/data/model_error_split.toml says which run is in which
part. Simulated is each run's own scenario, policy, start and phase of the HPA's sync.
"""

from __future__ import annotations

import argparse
import sys
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from lagbench.adapters.runs.experiment_folder import ExperimentFolder, KeptRun
from lagbench.catalog.catalog import load_policy
from lagbench.core.measures.measures import NAMED, Measures
from lagbench.core.measures.model import NANOSECONDS
from lagbench.core.policy.policy import Policy
from lagbench.core.scenario.actions import SwapPolicy
from lagbench.core.scenario.scenario import Scenario
from lagbench.core.simulation.model_error import ModelError, error_of
from lagbench.core.simulation.prediction import PHASES, draws
from lagbench.core.simulation.simulate import left_out
from lagbench.core.simulation.simulated_world import SimulatedEnvironment
from lagbench.results.read_run import policy_of_run

ROOT = Path(__file__).resolve().parents[1]
FINDINGS = ROOT / "docs" / "findings"
MEASURES = {
    "reaction_seconds": False,
    "drain_seconds": False,
    "peak_lag_records": True,
    "time_lag_p99_seconds": False,
    "pod_minutes": True,
}
"""Whether the residual is a share of the prediction."""
SPLIT = ROOT / "tests" / "data" / "model_error_split.toml"


@dataclass(frozen=True, slots=True)
class Played:
    """A kept run that the simulator plays."""

    experiment: str
    run_id: str
    scenario: Scenario
    policy: Policy
    policy_name: str
    swapped: Mapping[int, Policy]
    measures: Measures
    phase: float | None
    started_at_seconds: int


def split() -> dict[str, list[str]]:
    """Return the experiments of ``fitting``, ``left_out`` and ``later``."""
    return tomllib.loads(SPLIT.read_text(encoding="utf-8"))


def played_runs(half: str) -> Iterator[Played]:
    """Yield the runs of a part of the split that are valid and that are played."""
    for experiment in split()[half]:
        for run in ExperimentFolder(FINDINGS / experiment).runs():
            found = _played(experiment, run)
            if found is not None:
                yield found


def _played(experiment: str, run: KeptRun) -> Played | None:
    files = run.files
    scenario = Scenario.model_validate(yaml.safe_load(files["scenario"]))
    missing = set(left_out(scenario)) - {"second_group"}
    measures = Measures.model_validate(files["measures"])
    if missing or not scenario.consumer.graceful_shutdown or not measures.validity.is_valid:
        return None
    swaps = {n: a for n, a in enumerate(scenario.actions) if isinstance(a, SwapPolicy)}
    return Played(
        experiment,
        run.run_id,
        scenario,
        _policy(files),
        files["manifest"]["policy"],
        {number: _of_catalog(action.policy, files) for number, action in swaps.items()},
        measures,
        phase_of(files),
        files["manifest"]["stream_started_at"] // NANOSECONDS,
    )


def _policy(files: Mapping[str, Any]) -> Policy:
    """Return the policy that is kept with the run, else the catalog's."""
    name = files["manifest"]["policy"]
    if "policy" not in files:
        return _of_catalog(name, files)
    return policy_of_run(yaml.safe_load(files["policy"]), files["manifest"], where=name)


def _of_catalog(name: str, files: Mapping[str, Any]) -> Policy:
    return policy_of_run(load_policy(name).manifest, files["manifest"], where=name)


def phase_of(files: Mapping[str, Any]) -> float | None:
    """Return an instant of the HPA's syncs, from the stream's start; None: it is not known."""
    after = (files.get("prediction") or {}).get("after") or {}
    phase: float | None = after.get("hpa_sync_at_seconds")
    return phase


@dataclass(frozen=True, slots=True)
class Compared:
    """A measure of a run as simulated, draw by draw, and as measured."""

    run: Played
    simulated: tuple[float, ...]
    measured: float

    @property
    def predicted(self) -> float:
        """The median of the draws."""
        return float(np.median(self.simulated))

    def off(self, of: float, *, is_relative: bool) -> float:
        """Return how far the measured value is from ``of``, or which share of it that is."""
        return self.measured / of - 1 if is_relative else self.measured - of


def error(rows: Sequence[Compared], *, is_relative: bool) -> ModelError:
    """Return the residuals of the runs whose phase is known."""
    known = [row for row in rows if row.run.phase is not None]

    def off(of: Callable[[Compared], float], *levels: float) -> list[float]:
        found = [row.off(of(row), is_relative=is_relative) for row in known]
        return [float(f"{one:.3g}") for one in np.quantile(found, levels).tolist()]

    low, middle, high = off(lambda row: row.predicted, 0.05, 0.5, 0.95)
    (below,) = off(lambda row: min(row.simulated), 0.05)
    (above,) = off(lambda row: max(row.simulated), 0.95)
    return ModelError(len(known), is_relative, middle, low, high, min(below, 0.0), max(above, 0.0))


def held_by_others(rows: Sequence[Compared], *, is_relative: bool) -> str:
    """Say how many runs of known phase the range holds that the other experiments give."""
    known, held = [row for row in rows if row.run.phase is not None], 0
    for row in known:
        others = [one for one in known if one.run.experiment != row.run.experiment]
        low, high = error(others, is_relative=is_relative).interval(*row.simulated)
        held += low <= row.measured <= high
    return f"that of the other experiments {held} of {len(known)}"


def compared(runs: Iterable[Played], count: int) -> dict[str, list[Compared]]:
    """Return what can be compared of each measure of MEASURES, from ``count`` draws a run."""
    found: dict[str, list[Compared]] = {name: [] for name in MEASURES}
    for run in runs:
        drawn = draws(
            run.scenario,
            run.policy,
            hpa_sync_at_seconds=run.phase,
            environment=SimulatedEnvironment(starts_at_seconds=run.started_at_seconds),
            swapped=run.swapped,
            phases=count,
        )
        for name, rows in found.items():
            values = [getattr(one.measures, name) for one in drawn]
            known = tuple(float(value) for value in values if value is not None)
            measured = NAMED[name].read(run.measures)
            is_usable = 2 * len(known) > len(values) and (min(known) > 0 or not MEASURES[name])
            if measured is not None and is_usable:
                rows.append(Compared(run, known, measured))
    return found


def main() -> None:
    """Print the residuals of a part of the kept runs, and what the 90 % range holds of them."""
    parser = argparse.ArgumentParser(prog="python -m tests.model_error", description=__doc__)
    parser.add_argument("half", choices=tuple(split()), nargs="?", default="fitting")
    parser.add_argument("--draws", type=int, default=PHASES, help="simulations of each run")
    parser.add_argument("--table", action="store_true", help="as the module's rows")
    asked = parser.parse_args()
    for name, rows in compared(played_runs(asked.half), asked.draws).items():
        found = error(rows, is_relative=MEASURES[name])
        if asked.table:
            numbers = ", ".join(map(str, astuple(found)))
            sys.stdout.write(f'    "{name}": ModelError({numbers}),\n')
        else:
            line = _line(name, rows, found)
            if asked.half == "fitting":
                line += f"; {held_by_others(rows, is_relative=MEASURES[name])}"
            sys.stdout.write(f"{name:<22}{line}\n")


def _line(name: str, rows: Sequence[Compared], found: ModelError) -> str:
    unit, by = ("%", 100.0) if MEASURES[name] else (NAMED[name].unit, 1.0)
    low, middle, high = (one * by for one in (found.p05, found.median, found.p95))
    text = f"{found.runs:>4} runs  {middle:+7.2f} {unit} ({low:+.2f} to {high:+.2f})"
    fitted = error_of(name)
    if fitted is None:
        return text
    for is_known in (True, False):
        ranges = [
            (*fitted.interval(*row.simulated), row)
            for row in rows
            if (row.run.phase is not None) is is_known
        ]
        if ranges:
            held = sum(begin <= row.measured <= end for begin, end, row in ranges)
            wide = [
                (end - begin) / (row.predicted if MEASURES[name] else 1.0)
                for begin, end, row in ranges
            ]
            which = "" if is_known else ", of unknown phase"
            width = float(np.median(wide)) * by
            text += f"; 90 % range holds {held} of {len(ranges)}{which}, width {width:.2f} {unit}"
    return text


if __name__ == "__main__":
    main()
