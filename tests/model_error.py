"""``python -m tests.model_error [fitting|left_out]``: simulate kept runs beside what was measured.

It prints the residuals of the half, and with ``--table`` the table that stands in
``core/simulation/model_error.py``. tests/data/model_error_split.toml says which run is in which
half. Simulated is each run's own scenario, policy, start and phase of the HPA's sync.
"""

from __future__ import annotations

import argparse
import sys
import textwrap
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from lagbench.adapters.runs.experiment_folder import ExperimentFolder, KeptRun
from lagbench.catalog.catalog import load_policy
from lagbench.core.hpa.controller_flags import followed_version
from lagbench.core.measures.measures import NAMED, Measures
from lagbench.core.measures.model import NANOSECONDS, Reals
from lagbench.core.policy.policy import Policy
from lagbench.core.scenario.actions import SwapPolicy
from lagbench.core.scenario.scenario import Scenario
from lagbench.core.simulation.model_error import LEVELS, error_of
from lagbench.core.simulation.prediction import PHASES, draws
from lagbench.core.simulation.simulate import left_out
from lagbench.core.simulation.simulated_world import SimulatedEnvironment

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


def played_runs(half: str) -> Iterator[Played]:
    """Yield the runs of ``fitting`` or ``left_out`` that are valid and that are played."""
    for experiment in tomllib.loads(SPLIT.read_text())[half]:
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
        {number: load_policy(action.policy) for number, action in swaps.items()},
        measures,
        _phase(files),
        files["manifest"]["stream_started_at"] // NANOSECONDS,
    )


def _policy(files: Mapping[str, Any]) -> Policy:
    """Return the policy that is kept with the run, else the catalog's."""
    name = files["manifest"]["policy"]
    if "policy" not in files:
        return load_policy(name)
    version = followed_version(files["manifest"]["cluster"]["kubernetes"])
    return Policy.read(yaml.safe_load(files["policy"]), where=name, kubernetes=version)


def _phase(files: Mapping[str, Any]) -> float | None:
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

    def residual(self, *, is_relative: bool) -> float | None:
        """Return measured - predicted; None: a share of nothing."""
        found = self.measured - self.predicted
        if not is_relative:
            return found
        return found / self.predicted if self.predicted else None


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
            if measured is not None and 2 * len(known) > len(values):
                rows.append(Compared(run, known, measured))
    return found


def main() -> None:
    """Print the residuals of a half of the kept runs."""
    parser = argparse.ArgumentParser(prog="python -m tests.model_error", description=__doc__)
    parser.add_argument("half", choices=("fitting", "left_out"), nargs="?", default="fitting")
    parser.add_argument("--draws", type=int, default=PHASES, help="simulations of each run")
    parser.add_argument("--table", action="store_true", help="as the module's rows")
    asked = parser.parse_args()
    for name, rows in compared(played_runs(asked.half), asked.draws).items():
        is_relative = MEASURES[name]
        known = [(row, row.residual(is_relative=is_relative)) for row in rows if row.run.phase]
        residuals = np.array([residual for _, residual in known if residual is not None])
        if asked.table:
            quantiles = ", ".join(f"{one:.3g}" for one in np.quantile(residuals, LEVELS))
            numbers = textwrap.indent(textwrap.fill(f"{quantiles},", 90), " " * 8)
            row = (
                f'    "{name}": ModelError({len(residuals)}, {is_relative}, (\n{numbers}\n    )),\n'
            )
            sys.stdout.write(row)
            continue
        sys.stdout.write(f"{name:<22}{_line(name, rows, residuals)}\n")


def _line(name: str, rows: Sequence[Compared], residuals: Reals) -> str:
    """Return median and width of the residuals, and what the 90 % range holds and is wide."""
    unit, by = ("%", 100.0) if MEASURES[name] else (NAMED[name].unit, 1.0)
    low, middle, high = np.quantile(residuals, (0.05, 0.5, 0.95)) * by
    text = f"{len(residuals):>4} runs  {middle:+7.2f} {unit} ({low:+.2f} to {high:+.2f})"
    error = error_of(name)
    if error is None:
        return text
    held, widths = 0, []
    for row in rows:
        begin, end = error.interval(*row.simulated)
        held += begin <= row.measured <= end
        widths.append((end - begin) / (row.predicted or 1.0 if MEASURES[name] else 1.0))
    width = float(np.median(widths)) * by
    share = width / (high - low)
    text += f"  90 % range holds {held / len(rows):.0%} of {len(rows)}"
    return f"{text}, width {width:.2f} = {share:.2f} x"


if __name__ == "__main__":
    main()
