"""The run that a task belongs to, read from its run folder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from lagbench.adapters.runs.run_folder import RunFolder
from lagbench.core.policy.checked_policy import CheckedPolicy
from lagbench.core.scenario.actions import SwapPolicy
from lagbench.core.scenario.offered_load import NS, offered_load
from lagbench.core.scenario.run_names import RunNames
from lagbench.core.scenario.scenario import Scenario
from lagbench.core.scenario.stream_tail import Tail, tail_of_run
from lagbench.errors import NotReady, WrongInput


@dataclass(frozen=True, slots=True)
class CellRun:
    """One run: its folder, its names, its effective scenario and policy.

    It is the run as its first consumer group sees it; ``second`` is the same for the second group.
    """

    folder: RunFolder
    names: RunNames
    scenario: Scenario
    policy: CheckedPolicy
    swapped: Mapping[int, CheckedPolicy] = field(default_factory=dict)
    """By the number of the action that puts it in place of the one before."""
    second: CellRun | None = None

    @property
    def groups(self) -> tuple[CellRun, ...]:
        """The run as each of its consumer groups sees it; the first group is first."""
        return (self,) if self.second is None else (self, self.second)

    def update_manifest(self, **fields: Any) -> None:
        """Merge ``fields`` into the manifest of each group."""
        for group in self.groups:
            group.folder.update_manifest(**fields)

    @property
    def has_output_topic(self) -> bool:
        """True: the group's consumers write their results, not a ledger, into its topic."""
        return self.scenario.consumer.accounting == "output"

    @property
    def tail(self) -> Tail | None:
        """Return the base load that continues after the planned window; None: there is none."""
        manifest = self.folder.read_json(self.folder.manifest)
        replicas = self.policy.limits.started_replicas
        return tail_of_run(manifest, self.scenario, started_replicas=replicas)

    @property
    def traffic_ends_at(self) -> float | None:
        """Return the end of the planned window (unix seconds); None: the producer's end.

        Without a tail the producer's Job shows the end itself.
        """
        if self.tail is None:
            return None
        started_at = self.folder.read_json(self.folder.manifest).get("stream_started_at")
        if started_at is None:
            raise NotReady("the stream has not started: the manifest has no stream_started_at")
        return float(started_at) / NS + offered_load(self.scenario.profile).duration_seconds

    @classmethod
    def open(cls, run_folder: str) -> CellRun:
        """Read the run from the folder that the task ``plan_cell`` created."""
        folder = RunFolder(Path(run_folder))
        if not folder.scenario.is_file():
            raise NotReady(
                f"there is no run in {run_folder}: scenario.yaml is missing. Tasks of one run need "
                "one file system; start a new run if the folder was deleted"
            )
        run = cls._read(folder)
        return run if folder.second is None else replace(run, second=cls._read(folder.second))

    @classmethod
    def _read(cls, folder: RunFolder) -> CellRun:
        try:
            scenario = Scenario.model_validate(yaml.safe_load(folder.read_text(folder.scenario)))
        except (ValidationError, yaml.YAMLError) as error:
            raise WrongInput(
                where=str(folder.scenario),
                field="content",
                value=str(error),
                allowed="the file as plan_cell wrote it; do not edit a run folder",
            ) from error
        policy = _policy(folder, folder.policy)
        swapped = {
            number: _policy(folder, folder.swapped_policy(number))
            for number, action in enumerate(scenario.actions)
            if isinstance(action, SwapPolicy)
        }
        return cls(
            folder=folder, names=folder.names, scenario=scenario, policy=policy, swapped=swapped
        )

    @property
    def last_policy(self) -> CheckedPolicy:
        """Return the policy in force at the end, if all swaps are played."""
        actions = self.scenario.actions

        def begin(number: int) -> tuple[bool, float, int]:
            action = actions[number]
            return action.at is not None, action.at_seconds or 0.0, number

        return self.swapped[max(self.swapped, key=begin)] if self.swapped else self.policy


def _policy(folder: RunFolder, file: Path) -> CheckedPolicy:
    return CheckedPolicy.of_run(yaml.safe_load(folder.read_text(file)), where=str(file))
