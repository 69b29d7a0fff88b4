"""Prove an advice: its policies as the cells of an experiment, and what their runs showed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lagbench.adapters.runs.experiment_folder import EXPERIMENTS_FOLDER, ExperimentFolder
from lagbench.adapters.runs.run_folder import runs_root
from lagbench.catalog.catalog import Cell, load_policy, load_scenario
from lagbench.catalog.experiments import as_name, check_experiment, experiment_of
from lagbench.core.advice.job import KEPT, digest
from lagbench.core.advice.model import Advice, Candidate
from lagbench.core.advice.proof import ProvedPolicy, ProvedRun, Role, held_by, proved_run
from lagbench.core.compare.experiment import Experiment, PlannedRun
from lagbench.core.measures.measures import Measures
from lagbench.core.simulation.prediction import draws, of_real_runs
from lagbench.core.simulation.simulation_measures import Spread
from lagbench.core.verdict.verdict import Verdict
from lagbench.results.advice_files import written
from lagbench.results.executions import read_progress

PROOF_PAIRS = 2


@dataclass(frozen=True, slots=True)
class Proof:
    """The experiment on one scenario; ``folder`` is the same whenever the same is to be proved."""

    advice: Advice
    scenario: str  # its name in the advice
    experiment: Experiment
    cells: Mapping[str, Cell]  # by role
    folder: ExperimentFolder

    @classmethod
    def of(
        cls,
        advice: Advice,
        scenario: str,
        asked: str,
        *,
        overrides: Mapping[str, str],
        pairs: int,
        seconds: float,
    ) -> Proof:
        """Write the policies of an advice, and return the experiment that rehearses them.

        :param asked: the scenario's name or path, as its runs are given it.
        :param seconds: expected of one run.
        :raises WrongInput: the scenario does not take one of the policies, or that many pairs.
        """
        name = as_name(f"advice_{scenario}")
        root = runs_root().absolute() / EXPERIMENTS_FOLDER / name
        policies, has_windows = dict[str, str](), False
        for role, one in to_prove(advice).items():
            mark = digest(one.manifest)[:8]  # that ends the names of what a search has found
            path = root / "policies" / f"{one.name.removesuffix(f'-{mark}')}-{mark}.yaml"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(written(one.manifest), encoding="utf-8")
            policies[role] = str(path)
            has_windows |= bool(load_policy(path).windows)  # they fix the stream's start
        slos = {slo.name: slo.limit for slo in (advice.slo, *advice.also)}
        shows = {slo: {"at_most": limit} for slo, limit in slos.items()}
        given = {field: value for field, value in overrides.items() if field != "seed"}
        experiment = experiment_of(
            {
                "name": name,
                "title": f"Proof of an advice on {asked}",
                "question": "Do the advised policies hold the SLO, and cost what was predicted?",
                "kind": "difference" if len(policies) > 1 else "identity",
                "scenario": asked,
                "overrides": {**given, **{f"slos.{slo}": limit for slo, limit in slos.items()}},
                "cells": [
                    {"name": role, "policy": one, "shows": shows} for role, one in policies.items()
                ],
                "pairs": pairs,  # all of one seed: the advice is on the hot keys that it places
                "seeds": [load_scenario(asked, overrides).seed] * pairs,
                "hours": seconds * len(policies) * pairs / 3600,
                "phase": "free" if has_windows else "fixed",
            }
        )
        cells = check_experiment(experiment)
        first = next(iter(cells.values()))  # the others have the same scenario
        parts = [experiment.model_dump(mode="json", exclude={"hours"}), first.scenario_text]
        same = digest(parts)
        return cls(
            advice, scenario, experiment, cells, ExperimentFolder(root / f"proof-{same[:12]}")
        )

    def read(self) -> list[ProvedPolicy]:
        """Return what the runs so far showed of each policy."""
        progress = read_progress(self.folder)
        kept = {run.run_id: run for run in self.folder.runs()}
        slos = [slo.name for slo in (self.advice.slo, *self.advice.also)]
        found = []
        for role, one in to_prove(self.advice).items():
            planned = [run for run in progress.schedule.runs if run.cell == role]
            runs = list[ProvedRun]()
            for run in sorted(planned, key=lambda run: run.pair):
                record = progress.measured(run)
                if record is None:
                    continue
                with kept[record.run_id].unpacked() as made:
                    runs.append(
                        proved_run(
                            made.read_model(made.verdict, Verdict),
                            made.read_model(made.measures, Measures),
                            pair=run.pair,
                            slos=slos,
                            predicted=_predicted(self.cells[role], run),
                        )
                    )
            found.append(
                ProvedPolicy(
                    scenario=self.scenario,
                    role=role,
                    candidate=one.name,
                    planned=len(planned),
                    verdict=held_by([run.verdict for run in runs], planned=len(planned)),
                    runs=tuple(runs),
                )
            )
        return found


def _predicted(cell: Cell, run: PlannedRun) -> dict[str, Spread]:
    """Return what the simulator says of that run: at its phase of the HPA's sync."""
    found = of_real_runs(
        draws(
            cell.scenario.model_copy(update={"seed": run.seed}),
            cell.policy,
            hpa_sync_at_seconds=run.hpa_sync_at_seconds,
            swapped={number: one.policy for number, one in cell.swapped.items()},
        )
    )
    return {name: found[name] for name in KEPT}


def to_prove(advice: Advice) -> dict[Role, Candidate]:
    """Return the policies that are rehearsed; the first is what the others are compared with.

    One that is another's equal is not rehearsed twice.
    """
    asked: dict[Role, Candidate | None] = {
        "pick": advice.pick,
        "present": advice.present,
        "runner_up": advice.runner_up,
    }
    found: dict[Role, Candidate] = {}
    for role, one in asked.items():
        if one is not None and one.manifest not in [kept.manifest for kept in found.values()]:
            found[role] = one
    order: tuple[Role, ...] = ("present", "pick", "runner_up")
    return {role: found[role] for role in order if role in found}
