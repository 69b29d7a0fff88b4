"""The rules by which every program reads its settings."""

from __future__ import annotations

import json
from typing import Annotated, Literal

import pytest
from pydantic import Field

from lagbench.core.scenario.conf_limits import SETTINGS_VARIABLE, Flag
from lagbench.errors import WrongInput
from lagbench.programs.flags import CommandLine, Settings, like


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
    arguments: list[str],
    environment: dict[str, str],
    field: str,
    value: object,
    allowed: str,
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
