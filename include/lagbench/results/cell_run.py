"""Read what a run is made of: folder, names, scenario and policies; for the tasks that make it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from lagbench.adapters.runs.run_folder import RunFolder, runs_root
from lagbench.core.policy.policy import Policy
from lagbench.core.scenario.actions import SwapPolicy
from lagbench.core.scenario.offered_load import NS, offered_load
from lagbench.core.scenario.run_names import RunNames
from lagbench.core.scenario.scenario import Scenario
from lagbench.core.scenario.stream_tail import Tail, tail_of_run
from lagbench.errors import NotReady, WrongInput

Model = TypeVar("Model", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class CellRun:
    """One run: its folder, its names, its effective scenario and policy.

    It is the run as its first consumer group sees it; ``second`` is the same for the second group.
    """

    folder: RunFolder
    names: RunNames
    scenario: Scenario
    policy: Policy
    swapped: Mapping[int, Policy] = field(default_factory=dict)
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

    def noted(self, name: str) -> Any:
        """Return a field of the manifest; None: it is not there yet."""
        return self.folder.read_json(self.folder.manifest).get(name)

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
        started_at = self.noted("stream_started_at")
        if started_at is None:
            raise NotReady("the stream has not started: the manifest has no stream_started_at")
        return float(started_at) / NS + offered_load(self.scenario.profile).duration_seconds

    @property
    def last_policy(self) -> Policy:
        """Return the policy in force at the end, if all swaps are played."""

        def begin(number: int) -> tuple[bool, float, int]:
            action = self.scenario.actions[number]
            return action.at is not None, action.at_seconds or 0.0, number

        return self.swapped[max(self.swapped, key=begin)] if self.swapped else self.policy

    @classmethod
    def open(cls, run_folder: str) -> CellRun:
        """Read the run from the folder that ``plan_cell`` created: its path, or its run id."""
        folder = RunFolder(runs_root() / run_folder)
        if not folder.scenario.is_file():
            raise NotReady(
                f"there is no run in {folder.path}: scenario.yaml is missing. Tasks of one run "
                "need one file system; start a new run if the folder was deleted"
            )
        run = cls._read(folder)
        return run if folder.second is None else replace(run, second=cls._read(folder.second))

    @classmethod
    def _read(cls, folder: RunFolder) -> CellRun:
        def policy(file: Path) -> Policy:
            return Policy.read(read_yaml(folder, file), where=str(file))

        scenario = read_scenario(folder)
        swaps = [n for n, one in enumerate(scenario.actions) if isinstance(one, SwapPolicy)]
        swapped = {number: policy(folder.swapped_policy(number)) for number in swaps}
        return cls(folder, folder.names, scenario, policy(folder.policy), swapped)


def read_scenario(folder: RunFolder) -> Scenario:
    """Return the run's effective scenario.

    :raises WrongInput: the file is not a scenario.
    """
    content = read_yaml(folder, folder.scenario)
    return validated(Scenario, content, where=f"run {folder.reference}: scenario.yaml")


def validated(kind: type[Model], content: object, *, where: str) -> Model:
    """Return the content of a stored file as its model.

    :raises WrongInput: it is none; the first field that is wrong.
    """
    try:
        return kind.model_validate(content)
    except ValidationError as broken:
        first = broken.errors()[0]
        field = ".".join(map(str, first["loc"])) or "content"
        value, allowed = first["input"], first["msg"]
        raise WrongInput(where=where, field=field, value=value, allowed=allowed) from broken


def read_yaml(folder: RunFolder, file: Path) -> dict[str, Any]:
    """Return the content of one of the folder's YAML files.

    :raises WrongInput: it is not a mapping.
    """
    try:
        content = yaml.safe_load(folder.read_text(file))
    except yaml.YAMLError as broken:
        content = str(broken)
    if not isinstance(content, dict):
        allowed = "a YAML mapping"
        where = f"run {folder.reference}: {file.name}"
        raise WrongInput(where=where, field="content", value=str(content)[:80], allowed=allowed)
    return content
