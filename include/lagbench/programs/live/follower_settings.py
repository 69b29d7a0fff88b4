"""Define the settings of the follower and read them."""

from __future__ import annotations

import os
import select
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

from pydantic import Field

from lagbench.adapters.process.stop_signal import StopSignal
from lagbench.core.scenario.conf_limits import Flag
from lagbench.programs.flags import CommandLine, Settings

LONGEST_SECONDS = 4 * 86_400
"""The longest time that a Dag run may take."""


class FollowerSettings(Settings):
    """lagbench's follower of a run: it writes live.jsonl of the run folder."""

    run_folder: Path = Field(description="folder of the run, as plan_cell has made it")
    bootstrap_servers: Annotated[str, Flag(variables=("KAFKA_BOOTSTRAP_SERVERS",))] = Field(
        min_length=1, description="host:port of Kafka"
    )
    owner_pid: int = Field(ge=1, description="process with which the follower ends")
    longest_seconds: float = Field(
        LONGEST_SECONDS, gt=0, le=LONGEST_SECONDS, description="time after which it ends anyway"
    )


def parse_settings(arguments: Sequence[str], environment: Mapping[str, str]) -> FollowerSettings:
    """Return the settings that the command line and the environment state.

    :raises WrongInput: a flag is unknown, missing or out of range.
    """
    line = CommandLine(FollowerSettings, module="lagbench.programs.live")
    return line.read(arguments, environment)


class OwnerWatch:
    """Shows the end of the owner, also after SIGKILL, and a request to end."""

    def __init__(self, owner_pid: int) -> None:
        """Hold the owner's process; a number that is used again later is another one.

        :raises ProcessLookupError: there is no such process.
        """
        self._poll = select.poll()
        self._owner = os.pidfd_open(owner_pid)
        self._asked = StopSignal()
        for descriptor in (self._owner, self._asked.fileno()):
            self._poll.register(descriptor, select.POLLIN)

    def ask(self) -> None:
        """Let the wait in progress end; safe in a signal handler."""
        self._asked.set()

    def wait(self, seconds: float) -> bool:
        """Wait; True at once if the owner has ended or the end was asked for."""
        return bool(self._poll.poll(round(seconds * 1000)))
