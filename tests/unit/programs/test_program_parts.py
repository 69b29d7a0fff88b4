"""A program's end waits for no thread, and leaves no temporary file."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Annotated, Literal

import pytest
from pydantic import Field

from lagbench.adapters.kafka.telemetry_topic import TelemetryFollower
from lagbench.core.telemetry.records import encode_record
from lagbench.core.telemetry.records_of_programs import ClockStepped, Phase, Record
from lagbench.core.telemetry.records_of_recorder import ReadGap
from lagbench.errors import WrongInput
from lagbench.programs.clock_watch import ClockWatch
from pod_program.flags import SETTINGS_VARIABLE, CommandLine, Flag, Settings, like
from pod_program.kafka_settings import RECOVERY
from pod_program.steady_clock import SteadyClock

_PROGRAM = """
import sys, tempfile, threading
from pod_program.program import end_program

folder = tempfile.TemporaryDirectory(dir=sys.argv[1])
threading.Thread(target=threading.Event().wait).start()
print("flushed")
end_program(4)
"""


def test_an_end_waits_for_no_thread_and_deletes_temporary_files(tmp_path: Path) -> None:
    """The exit code and the output are the program's, though a thread of it never ends."""
    ended = subprocess.run(
        [sys.executable, "-c", _PROGRAM, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )

    assert (ended.returncode, ended.stdout, ended.stderr) == (4, "flushed\n", "")
    assert list(tmp_path.iterdir()) == []


_FAILING = """
import logging, sys, threading
from lagbench.errors import NotReady, WrongInput
from pod_program.program import run_program

def main():
    threading.Thread(target=threading.Event().wait).start()
    raise {error}

run_program(main, log={log})
"""

_WRONG = 'WrongInput(where="f", field="x", value=1, allowed="2")'


@pytest.mark.parametrize(
    ("error", "log", "code", "said"),
    [
        ('NotReady("no broker")', None, 3, "^no broker\n$"),
        (_WRONG, None, 2, "^f: x = 1 is [^\n]*\n$"),
        ('NotReady("no broker")', 'logging.getLogger("p")', 3, "^[^\n]* ERROR no broker\n$"),
        ('ValueError("odd")', None, 3, " failed\nTraceback .*\nValueError: odd\n$"),
    ],
)
def test_no_error_waits_for_a_thread(error: str, log: str | None, code: int, said: str) -> None:
    """An expected error is one message with its own code, any other has its traceback."""
    ended = subprocess.run(
        [sys.executable, "-c", _FAILING.format(error=error, log=log)],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )

    assert ended.returncode == code
    assert re.search(said, ended.stderr, re.DOTALL), ended.stderr


def test_a_program_ends_with_the_code_that_it_returns() -> None:
    """What ``main`` returns is the exit code."""
    program = "from pod_program.program import run_program\nrun_program(lambda: 4)"
    ended = subprocess.run([sys.executable, "-c", program], timeout=30, check=False)

    assert ended.returncode == 4


def set_clock(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """Move the wall clock of this process."""
    wall = time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: wall() + round(seconds * 1e9))


def test_the_clock_agrees_with_the_wall_clock_and_does_not_follow_its_steps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Within a millisecond at the start; a step of an hour does not show."""
    clock = SteadyClock()
    earliest = time.time_ns()
    shown = clock.now_ns()
    assert earliest - 1_000_000 <= shown <= time.time_ns() + 1_000_000

    set_clock(monkeypatch, -3600)

    assert 0 <= clock.now_ns() - shown < 10e9


@pytest.mark.parametrize("step", [-5.0, -0.15, 0.15, 4.0])
def test_a_step_is_sent_once(monkeypatch: pytest.MonkeyPatch, step: float) -> None:
    """By whoever looks first, stamped by the clock as it is now."""
    sent: list[Record] = []
    watch = ClockWatch("recorder-1", sent.append)
    watch.look()
    set_clock(monkeypatch, step)
    watch.look()
    watch.look()

    [found] = sent
    assert isinstance(found, ClockStepped)
    assert found.source == "recorder-1"
    assert found.step_seconds == pytest.approx(step, abs=0.02)
    assert abs(found.at - time.time_ns()) < 10e9


@pytest.fixture
def taken() -> list[Record]:
    """Provide what was handed over."""
    return []


@pytest.fixture
def follower(taken: list[Record]) -> TelemetryFollower:
    """Provide a follower that has not started."""
    return TelemetryFollower("127.0.0.1:1", "telemetry", taken.append, "recorder-1")


def test_others_records_are_handed_over_and_its_own_are_not(
    follower: TelemetryFollower, taken: list[Record]
) -> None:
    """What the recorder read itself it knows before the topic does; a bad message ends nothing.

    It looks for a new leader soon after an outage: else a partition may lack one for 5 minutes.
    """
    phase = Phase(at=1, source="dag", name="inject_spike", state="started")
    own = ReadGap(at=2, source="recorder-1", what="lag", reason="away")
    strange = [b"", b"{", b'{"kind": "unknown", "at": 1, "source": "x"}']

    for value in (*strange, encode_record(own), encode_record(phase)):
        follower.hand_over(value)

    assert taken == [phase]
    assert follower._settings.items() >= RECOVERY.items()


class Oven(Settings):
    """An oven."""

    heat: int = Field(180, ge=50, le=300, description="degrees")
    mode: Literal["top", "bottom"] = Field("top", description="where the heat comes from")
    fan: bool = Field(False, description="moves the air")
    bake_seconds: Annotated[float, Flag("bake", variables=("BAKE", "OLD_BAKE"))] = Field(
        60.0, gt=0, description="time of baking"
    )
    label: str | None = Field(None, description="what is 100 % sure to be in it")
    plates: dict[str, int] = Field({}, description="a JSON object")
    serial: Annotated[str, Flag(variables=("SERIAL",), is_variable_only=True)] = Field(
        "", description="of this oven"
    )


class Kitchen(Settings):
    """A kitchen has an oven's heat, and a cook without a default."""

    heat: int = like(Oven, "heat")
    warm: int | None = like(Oven, "heat", "degrees of the drawer", default=None)
    cook: str = Field(description="name of the cook")


OVEN = CommandLine(Oven, module="house.oven", variable_prefix="OVEN_")
KITCHEN = CommandLine(Kitchen, module="house.kitchen")


@pytest.mark.parametrize(
    "arguments",
    [
        ["-heat", "200", "-fan", "-bake=5"],
        ["--heat=200", "--fan=on", "--bake-seconds=5"],
        ["-heat=200", "-fan", "on", "-bake-seconds", "5"],
    ],
)
def test_a_flag_works_with_one_dash_and_with_two(arguments: list[str]) -> None:
    """By its field's name and by the lab's shorter one; a switch alone is on."""
    assert OVEN.read(arguments, {}) == Oven(heat=200, fan=True, bake_seconds=5)


def test_the_document_of_a_run_wins_over_flags_and_a_flag_over_its_variable() -> None:
    """Variables count in their order; a flag without one of its own has that of the prefix."""
    environment = {"BAKE": "5", "OLD_BAKE": "6", "OVEN_HEAT": "90", "SERIAL": "7"}

    assert OVEN.read([], environment) == Oven(heat=90, bake_seconds=5.0, serial="7")
    assert OVEN.read(["-bake=8"], {**environment, "BAKE": ""}).bake_seconds == 8.0
    assert OVEN.read([], {**environment, "BAKE": ""}).bake_seconds == 6.0
    document = json.dumps({"bake_seconds": 9, "plates": {"a": 1}, "label": None})
    of_run = OVEN.read(["-bake=8", "-label=x"], environment | {SETTINGS_VARIABLE: document})
    assert of_run == Oven(heat=90, bake_seconds=9.0, plates={"a": 1}, serial="7")


def test_an_empty_text_is_no_text_but_a_wrong_number() -> None:
    """An unset shell variable leaves a text flag out, and is an error for a number."""
    assert OVEN.read(["--label="], {}).label is None
    with pytest.raises(WrongInput, match="--heat = ''"):
        OVEN.read(["--heat="], {})


@pytest.mark.parametrize(
    ("arguments", "environment", "field", "value", "allowed"),
    [
        (["-heat=20"], {}, "--heat", "20", "50 (degrees)"),
        (["--heat=nan"], {}, "--heat", "nan", "integer"),
        (["--bake=inf"], {}, "--bake", "inf", "finite"),
        ([], {"OLD_BAKE": "x"}, "OLD_BAKE", "x", "number"),
        (["--mode=left"], {}, "--mode", "left", "'top' or 'bottom'"),
        (['--plates={"a": "b"}'], {}, "--plates.a", "b", "JSON"),
        ([], {SETTINGS_VARIABLE: '{"heat": 20}'}, f"{SETTINGS_VARIABLE}.heat", 20, "50"),
        ([], {SETTINGS_VARIABLE: '{"colour": 1}'}, f"{SETTINGS_VARIABLE}.colour", 1, ""),
        (["--heat"], {}, "command line", None, "--help"),
        (["--serial=7"], {}, "command line", None, "--help"),
        (["--hea=60"], {}, "command line", None, "--help"),
        (["stray"], {}, "command line", None, "--help"),
    ],
)
def test_a_wrong_value_is_named_with_the_allowed_ones(
    arguments: list[str], environment: dict[str, str], field: str, value: object, allowed: str
) -> None:
    """The error has program, flag or variable, value and allowed values; exit code 2."""
    with pytest.raises(WrongInput) as rejected:
        OVEN.read(arguments, environment)

    error = rejected.value
    assert (error.where, error.field, error.exit_code) == ("oven", field, 2)
    assert value in (None, error.value)
    assert allowed in error.allowed


def test_a_wrong_value_is_reported_before_a_missing_one() -> None:
    """The value is what the user has just written; a borrowed field has its owner's bounds."""
    with pytest.raises(WrongInput, match="--warm = '20'"):
        KITCHEN.read(["--warm=20"], {})
    with pytest.raises(WrongInput, match="--cook = None"):
        KITCHEN.read(["--heat=60"], {})
    found = KITCHEN.read(["--cook=c", "--warm=50"], {})
    assert (found.heat, found.warm) == (180, 50)


def test_the_help_has_variables_and_defaults(capsys: pytest.CaptureFixture[str]) -> None:
    """All of it comes from the model; variables without a flag are not in it."""
    with pytest.raises(SystemExit) as ended:
        OVEN.read(["-h"], {})

    text = " ".join(capsys.readouterr().out.split())
    assert ended.value.code == 0
    words = ("python -m house.oven", "An oven.", "> 0; BAKE; OLD_BAKE; default: 60", "100 % sure")
    for part in (*words, "top|bottom", "on|off"):
        assert part in text
    assert "SERIAL" not in text
