"""Read and check the catalog's experiments.

``load_experiment`` reads the file alone; it is cheap, because the Dags are made from it whenever
they are parsed. ``check_experiment`` also checks all of its cells, before anything starts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import ValidationError

from lagbench.catalog.catalog_files import catalog_folder, find_file, is_path
from lagbench.catalog.scenario_errors import wrong_file
from lagbench.catalog.strict_yaml import parse_mapping, read_text
from lagbench.core.compare.experiment import Experiment
from lagbench.errors import WrongInput

if TYPE_CHECKING:
    from lagbench.catalog.catalog import Cell


def load_experiment(name_or_path: str | Path) -> Experiment:
    """Return an experiment by name or path, after checking its own fields."""
    path = find_file(name_or_path, catalog_folder() / "experiments", "experiment")
    where = str(path)
    experiment = _of_data(parse_mapping(read_text(path), where=where), where)
    if not isinstance(name_or_path, Path) and not is_path(name_or_path):
        _require_own_name(experiment, path)
    return experiment


def experiment_of_policies(
    scenario: str, policies: Sequence[str], *, pairs: int, seconds: float
) -> Experiment:
    """Return the experiment that compares policies under one scenario, as a file would have it.

    :param seconds: expected of all runs of one pair.
    """
    data = {
        "name": as_name(f"{Path(scenario).stem}_policies"),
        "title": f"{' against '.join(policies)} under {scenario}",
        "question": f"Which of these policies is better under {scenario}?",
        "scenario": scenario,
        "cells": [{"name": as_name(Path(one).stem), "policy": one} for one in policies],
        "pairs": pairs,
        "hours": seconds * pairs / 3600,
    }
    return _of_data(data, "experiment")


def experiment_of_advice(
    name: str,
    scenario: str,
    policies: Mapping[str, str],
    *,
    slos: Mapping[str, float],
    overrides: Mapping[str, str],
    pairs: int,
    seed: int,
    seconds: float,
    phase: Literal["fixed", "free"],
) -> Experiment:
    """Return the experiment that rehearses policies by their roles, each judged by the SLOs.

    :param seed: of each pair, because the advice is on the hot keys that it places.
    :param seconds: expected of all runs of one pair.
    """
    limits = {name: {"at_most": limit} for name, limit in slos.items()}
    return _of_data(
        {
            "name": name,
            "title": f"Proof of an advice on {scenario}",
            "question": "Do the advised policies hold the SLO, and cost what was predicted?",
            "kind": "difference" if len(policies) > 1 else "identity",
            "scenario": scenario,
            "overrides": {**overrides, **{f"slos.{name}": slos[name] for name in slos}},
            "cells": [
                {"name": role, "policy": path, "shows": limits} for role, path in policies.items()
            ],
            "pairs": pairs,
            "seeds": [seed] * pairs,
            "hours": seconds * pairs / 3600,
            "phase": phase,
        },
        "experiment",
    )


def _of_data(data: dict[str, Any], where: str) -> Experiment:
    try:
        return Experiment.model_validate(data)
    except ValidationError as error:
        raise wrong_file(error, data, where=where, model=Experiment) from error


def as_name(text: str) -> str:
    """Return a text in the letters of a cell's name."""
    letters = re.sub(r"[^a-z0-9_]", "_", text.lower())[:40]
    return letters if letters[:1].isalpha() else f"p_{letters}"[:40]


def check_experiment(experiment: Experiment) -> dict[str, Cell]:
    """Return the cells by name, each with a checked scenario and policy."""
    from lagbench.catalog.catalog import checked_cell
    from lagbench.core.compare.comparable import DRAWN_FOR_PAIRS
    from lagbench.core.measures.measures import NAMED

    where = f"experiment {experiment.name}"
    asked = [("bounds", name) for name in experiment.bounds]
    asked += [("shows", name) for name in experiment.shown_measures]
    for field, measure in asked:
        if measure not in NAMED:
            close = get_close_matches(measure, NAMED, n=1, cutoff=0.5)
            hint = f"did you mean {close[0]}? " if close else ""
            allowed = f"{hint}a measure: {', '.join(sorted(NAMED))}"
            raise WrongInput(where=where, field=field, value=measure, allowed=allowed)
    for field in DRAWN_FOR_PAIRS:
        for cell in experiment.cells:
            if field in experiment.overrides_of(cell):
                allowed = "no such override: the pairs set it (fields seeds, phase)"
                raise WrongInput(where=where, field="overrides", value=field, allowed=allowed)
    return {
        cell.name: checked_cell(
            experiment.scenario, policy=cell.policy, overrides=experiment.overrides_of(cell)
        )
        for cell in experiment.cells
    }


def _require_own_name(experiment: Experiment, path: Path) -> None:
    """Reject a file of the catalog with another name inside: its Dag and folder would clash."""
    if experiment.name != path.stem:
        raise WrongInput(
            where=str(path), field="name", value=experiment.name, allowed=f"the file's: {path.stem}"
        )
