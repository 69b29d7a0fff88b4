"""Hold the programs' command lines to a recording.

``tests/data/program_flags.json`` holds each program's flags with their help, and command lines with
the settings or the error that they gave. A new flag needs one more row there.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from lagbench.core.scenario.stream import OfferedLoad, Tail
from lagbench.errors import ExitCode, WrongInput
from lagbench.localkube.server import ServerSettings
from lagbench.programs.autoscaler import options as autoscaler
from lagbench.programs.consumer import settings as consumer
from lagbench.programs.flags import CommandLine
from lagbench.programs.lag_scaler import options as lag_scaler
from lagbench.programs.producer import flags as producer
from lagbench.programs.recorder import settings as recorder
from lagbench.programs.tcp_proxy import settings as tcp_proxy

RECORDED = json.loads((Path(__file__).parents[2] / "data" / "program_flags.json").read_text())
PARSERS: Mapping[str, Callable[[Sequence[str], Mapping[str, str]], Any]] = {
    "autoscaler": lambda arguments, _environment: autoscaler.parse_options(arguments),
    "consumer": consumer.parse_options,
    "lag_scaler": lag_scaler.parse_options,
    "localkube": CommandLine(ServerSettings, module="lagbench.localkube").read,
    "producer": producer.read_settings,
    "recorder": recorder.parse_options,
    "tcp_proxy": tcp_proxy.parse_settings,
}


def test_every_program_with_flags_was_recorded() -> None:
    """The recorded programs are those that have a parser."""
    assert sorted(RECORDED) == sorted(PARSERS)


@pytest.mark.parametrize("program", sorted(PARSERS))
def test_the_help_has_not_changed(program: str, capsys: pytest.CaptureFixture[str]) -> None:
    """``--help`` shows the same flags, placeholders and texts in the same order."""
    recorded = RECORDED[program]
    head = {name: recorded[name] for name in ("prog", "description", "epilog")}
    expected = argparse.ArgumentParser(**head)
    for flag in recorded["flags"]:
        shape = {name: flag[name] for name in ("metavar", "nargs", "help")}
        expected.add_argument(*flag["options"], **shape)

    with pytest.raises(SystemExit) as ended:
        PARSERS[program](["--help"], {})

    assert ended.value.code == ExitCode.PASS
    assert capsys.readouterr().out == expected.format_help()


@pytest.mark.parametrize("program", sorted(PARSERS))
def test_a_command_line_gives_what_it_gave(
    program: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Flags and variables give the same settings, or the same error with exit code 2."""
    recorded = RECORDED[program]
    found = [_outcome(program, case, recorded["defaults"], capsys) for case in recorded["cases"]]

    assert found == [_recorded_outcome(case, recorded["defaults"]) for case in recorded["cases"]]


def _recorded_outcome(case: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """Return a recorded case with all its settings; the file holds what differs from defaults."""
    if "options" in case:
        return {**case, "options": {**defaults, **case["options"]}}
    return {**case, "exit": ExitCode.WRONG_INPUT}


def _outcome(
    program: str,
    case: Mapping[str, Any],
    fields: Iterable[str],
    capsys: pytest.CaptureFixture[str],
) -> dict[str, Any]:
    """Return a command line with its settings, or with how it was rejected."""
    found = {name: case[name] for name in ("arguments", "environment")}
    try:
        settings = PARSERS[program](case["arguments"], case["environment"])
    except WrongInput as error:
        return {**found, "wrong": str(error), "exit": error.exit_code}
    except SystemExit as ended:
        said = capsys.readouterr().err.strip().splitlines()[-1:]
        return {**found, "said": said, "exit": ended.code}
    return {**found, "options": {name: _plain(getattr(settings, name)) for name in fields}}


def _plain(value: Any) -> Any:
    """Return a setting as JSON has it."""
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, OfferedLoad):
        return [value.total, value.duration_ns]
    if isinstance(value, Tail):
        return [value.rate_per_second, value.most_seconds]
    if isinstance(value, float) and not -1e300 < value < 1e300:
        return repr(value)  # JSON has no nan
    return value.model_dump() if hasattr(value, "model_dump") else value
