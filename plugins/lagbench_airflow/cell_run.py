"""The run that a task belongs to, read from its run folder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import yaml
from pydantic import ValidationError

from lagbench.adapters.runs.run_folder import RunFolder
from lagbench.core.policy import CheckedPolicy
from lagbench.core.scenario import RunNames, Scenario
from lagbench.core.scenario.stream import NS, Tail, offered_load, tail_of
from lagbench.errors import NotReady, WrongInput


@dataclass(frozen=True, slots=True)
class CellRun:
    """One run: its folder, its names, its effective scenario and policy."""

    folder: RunFolder
    names: RunNames
    scenario: Scenario
    policy: CheckedPolicy

    @property
    def tail(self) -> Tail | None:
        """Return the base load that continues after the planned window; None: there is none."""
        return tail_of(self.scenario, started_replicas=self.policy.limits.started_replicas)

    @property
    def traffic_ends_at(self) -> float | None:
        """Return the end of the planned window (unix seconds); None: the producer's end.

        Without a tail the producer's Job shows the end itself.

        :raises NotReady: there is a tail, and the stream has not started.
        """
        if self.tail is None:
            return None
        started_at = self.folder.read_json(self.folder.manifest).get("stream_started_at")
        if started_at is None:
            raise NotReady("the stream has not started: the manifest has no stream_started_at")
        return float(started_at) / NS + offered_load(self.scenario.profile).duration_seconds

    @classmethod
    def open(cls, run_folder: str) -> CellRun:
        """Read the run from the folder that the task ``plan_cell`` created.

        :raises NotReady: the folder is missing (another machine, or deleted).
        """
        folder = RunFolder(Path(run_folder))
        if not folder.scenario.is_file():
            raise NotReady(
                f"there is no run in {run_folder}: scenario.yaml is missing. Tasks of one run need "
                "one file system; start a new run if the folder was deleted"
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
        found = yaml.safe_load(folder.read_text(folder.policy))
        policy = CheckedPolicy.of_run(found, where=str(folder.policy))
        return cls(folder=folder, names=names, scenario=scenario, policy=policy)
