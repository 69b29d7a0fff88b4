"""lagbench's two families of errors in Airflow's terms."""

from __future__ import annotations

import json
import logging
import os
import signal
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from types import FrameType
from typing import Any, Literal

import yaml
from airflow.sdk.exceptions import AirflowFailException
from pydantic import ValidationError

from lagbench.adapters.kafka.telemetry_topic import TelemetryLog
from lagbench.adapters.runs.run_folder import RunFolder, runs_root
from lagbench.core.policy.policy import Policy
from lagbench.core.scenario.actions import SwapPolicy
from lagbench.core.scenario.offered_load import NS, offered_load
from lagbench.core.scenario.run_names import RunNames
from lagbench.core.scenario.scenario import Scenario
from lagbench.core.scenario.stream_tail import Tail, tail_of_run
from lagbench.core.telemetry.records_of_programs import Phase
from lagbench.errors import NotReady, PodsEnded, PodsRefused, WrongInput
from lagbench.printed_commands import runnable

log = logging.getLogger(__name__)

REFUSED = "refused"
"""Key of the result of ``plan_cell`` that says why it made no run folder."""


@contextmanager
def wrong_input_is_final() -> Iterator[None]:
    """Fail without retries on wrong input and pods that cannot work; NotReady is retried.

    The log has the message as a line of its own: in a traceback it is cut off.
    """
    try:
        yield
    except (WrongInput, PodsRefused, PodsEnded) as error:
        text = runnable(str(error))
        log.error("%s", text)
        raise AirflowFailException(text) from error


class TaskKilled(BaseException):
    """Airflow ends the task.

    No ``Exception``: a handler of errors must not continue the work. Airflow repeats the task if it
    has retries left and was not marked as failed.
    """


@contextmanager
def ends_when_killed() -> Iterator[None]:
    """Raise ``TaskKilled`` in the body at the first SIGTERM; for the main thread.

    Airflow's own handler, which is called first, calls ``on_kill`` and returns. The task would then
    continue until it is killed after some seconds, and what it creates beside the teardown would
    stay. ``on_kill`` cannot raise instead, because Airflow calls it after a timeout, too, and a
    task that has timed out would have no retry.
    """
    before, own_pid, is_ending = signal.getsignal(signal.SIGTERM), os.getpid(), False

    def end(number: int, frame: FrameType | None) -> None:
        nonlocal is_ending
        if callable(before):
            before(number, frame)
        if not is_ending and os.getpid() == own_pid:
            is_ending = True
            raise TaskKilled("the task was killed (SIGTERM)")

    signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


PhaseState = Literal["started", "finished", "failed"]
DETAIL_LENGTH = 500
FLUSH_SECONDS = 2.0
"""A phase that Kafka does not accept within 2 s (broker down) is only in the file."""


@contextmanager
def phase(folder: RunFolder, name: str, *, bootstrap_servers: str | None = None) -> Iterator[None]:
    """Record the start of the body's phase and its end."""
    record_phase(folder, name, "started", bootstrap_servers=bootstrap_servers)
    try:
        yield
    except BaseException as error:  # also a killed task: its phase has failed
        record_phase(folder, name, "failed", detail=str(error)[:DETAIL_LENGTH])
        raise
    record_phase(folder, name, "finished", bootstrap_servers=bootstrap_servers)


def record_phase(
    folder: RunFolder,
    name: str,
    state: PhaseState,
    *,
    bootstrap_servers: str | None = None,
    detail: str = "",
) -> None:
    """Append the phase to each group's ``phases.jsonl``.

    With ``bootstrap_servers`` also to its telemetry topic. Pass no servers before the topics exist
    or after the fence: the record would not be read there.
    """
    phase = Phase(at=time.time_ns(), source="dag", name=name, state=state, detail=detail)
    for group in folder.groups:
        _append(group, phase.at, name, state, detail)
        if bootstrap_servers is not None:
            log = _telemetry(bootstrap_servers, group.names.telemetry_topic)
            log.send(phase)
            log.flush(FLUSH_SECONDS)


@lru_cache(maxsize=2)
def _telemetry(bootstrap_servers: str, topic: str) -> TelemetryLog:
    """Return the client of a group's telemetry, as long as the process lives.

    Connections of their own for its two records took most of a second of each task.
    """
    return TelemetryLog(bootstrap_servers, topic)


def record_progress(folder: RunFolder, name: str, detail: str) -> None:
    """Append how far a phase is, for who watches the run."""
    for group in folder.groups:
        _append(group, time.time_ns(), name, "progress", detail)


def _append(folder: RunFolder, at: int, name: str, state: str, detail: str) -> None:
    """Append with one write of one line: a reader sees whole lines only."""
    line = json.dumps({"at": at, "name": name, "state": state, "detail": detail}) + "\n"
    with folder.phases.open("ab", buffering=0) as file:
        file.write(line.encode())


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
            return Policy.read(yaml.safe_load(folder.read_text(file)), where=str(file))

        try:
            scenario = Scenario.model_validate(yaml.safe_load(folder.read_text(folder.scenario)))
        except (ValidationError, yaml.YAMLError) as error:
            raise WrongInput(
                where=str(folder.scenario),
                field="content",
                value=str(error),
                allowed="the file as plan_cell wrote it; do not edit a run folder",
            ) from error
        swaps = [n for n, one in enumerate(scenario.actions) if isinstance(one, SwapPolicy)]
        swapped = {number: policy(folder.swapped_policy(number)) for number in swaps}
        return cls(folder, folder.names, scenario, policy(folder.policy), swapped)
