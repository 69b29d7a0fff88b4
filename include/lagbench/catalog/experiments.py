"""Read and check the catalog's experiments.

``load_experiment`` reads the file alone; it is cheap, because the Dags are made from it whenever
they are parsed. ``check_experiment`` also checks all of its cells, before anything starts.
"""

from __future__ import annotations

import re
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

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
    experiment = experiment_of(parse_mapping(read_text(path), where=where), where)
    is_of_catalog = not isinstance(name_or_path, Path) and not is_path(name_or_path)
    if is_of_catalog and experiment.name != path.stem:  # its Dag and folder would clash
        allowed = f"the file's: {path.stem}"
        raise WrongInput(where=where, field="name", value=experiment.name, allowed=allowed)
    return experiment


def experiment_of(data: dict[str, Any], where: str = "experiment") -> Experiment:
    """Return the experiment that a file with these fields has.

    :raises WrongInput: a field is wrong.
    """
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
