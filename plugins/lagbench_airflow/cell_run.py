"""The run that a task belongs to, read from its run folder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from lagbench.adapters.run_folder import RunFolder
from lagbench.core.run import RunNames
from lagbench.core.scenario import Scenario
from lagbench.errors import NotReady, WrongInput


@dataclass(frozen=True, slots=True)
class CellRun:
    """One run: its folder, its names, its effective scenario and policy."""

    folder: RunFolder
    names: RunNames
    scenario: Scenario
    policy: dict[str, Any]

    @classmethod
    def open(cls, run_folder: str) -> CellRun:
        """Read the run from the folder that the task ``plan_cell`` made.

        :raises NotReady: the folder is not there (another machine, or cleared away).
        """
        folder = RunFolder(Path(run_folder))
        if not folder.scenario.is_file():
            raise NotReady(
                f"there is no run in {run_folder}: scenario.yaml is missing. Tasks of one run need "
                "one file system; start a new run if the folder was cleared away"
            )
        names = RunNames(folder.run_id)
        try:
            scenario = Scenario.model_validate(yaml.safe_load(folder.read_text(folder.scenario)))
        except (ValidationError, yaml.YAMLError) as error:
            raise WrongInput(
                where=str(folder.scenario),
                field="content",
                value=str(error),
                allowed="the file as plan_cell wrote it; do not edit a run folder",
            ) from error
        policy = yaml.safe_load(folder.read_text(folder.policy))
        return cls(folder=folder, names=names, scenario=scenario, policy=policy)
