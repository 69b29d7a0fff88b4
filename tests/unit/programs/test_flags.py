"""The rules by which every program reads its command line."""

from __future__ import annotations

from typing import Annotated, Literal

import pytest
from pydantic import Field, Json

from lagbench.core.scenario import Flag
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
    plates: Annotated[Json[dict[str, int]], Flag(variables=("PLATES",), is_variable_only=True)] = (
        Field({}, description="a JSON object")
    )


class Kitchen(Settings):
    """A kitchen has an oven's heat, and a cook without a default."""

    heat: int = like(Oven, "heat")
    warm: int | None = like(Oven, "heat", "degrees of the drawer", default=None)
    cook: str = Field(description="name of the cook")


OVEN = CommandLine(Oven, module="house.oven", variable_prefix="OVEN_")
KITCHEN = CommandLine(Kitchen, module="house.kitchen")


@pytest.mark.parametrize(
    "arguments", [["-heat", "200", "-fan"], ["--heat=200", "--fan=on"], ["-heat=200", "-fan", "on"]]
)
def test_a_flag_works_with_one_dash_and_with_two(arguments: list[str]) -> None:
    """Both spellings give the same settings, and a switch alone is on."""
    assert OVEN.read(arguments, {}) == Oven(heat=200, fan=True)


def test_a_flag_wins_over_its_variable_and_both_over_the_default() -> None:
    """Variables count in their order; a flag without one of its own has that of the prefix."""
    environment = {"BAKE": "5", "OLD_BAKE": "6", "OVEN_HEAT": "90", "OVEN_BAKE": "7"}

    assert OVEN.read([], environment) == Oven(heat=90, bake_seconds=5.0)
    assert OVEN.read(["-bake=8"], {**environment, "BAKE": ""}).bake_seconds == 8.0
    assert OVEN.read([], {**environment, "BAKE": ""}).bake_seconds == 6.0


def test_an_empty_text_is_no_text_but_a_wrong_number() -> None:
    """An unset shell variable leaves a text flag out, and is an error for a number."""
    assert OVEN.read(["--label="], {}).label is None
    with pytest.raises(WrongInput, match="--heat = ''"):
        OVEN.read(["--heat="], {})


@pytest.mark.parametrize(
    ("arguments", "environment", "field", "value", "allowed"),
    [
        (["-heat=20"], {}, "--heat", "20", "50 to 300"),
        (["--heat=nan"], {}, "--heat", "nan", "50 to 300"),
        (["--bake=inf"], {}, "--bake", "inf", "above 0"),
        (["--bake=0"], {}, "--bake", "0", "above 0"),
        ([], {"OLD_BAKE": "x"}, "OLD_BAKE", "x", "above 0"),
        (["--mode=left"], {}, "--mode", "left", "top, bottom"),
        (["--fan=yes"], {}, "--fan", "yes", "on or off"),
        (["--heat"], {}, "--heat", None, "50 to 300"),
        ([], {"PLATES": '{"a": "b"}'}, "PLATES.a", '{"a": "b"}', "JSON"),
        (["--plates={}"], {}, "command line", "--plates={}", ""),
        (["--hea=60"], {}, "command line", "--hea=60", ""),
        (["stray"], {}, "command line", "stray", ""),
    ],
)
def test_a_wrong_value_is_named_with_the_allowed_ones(
    arguments: list[str],
    environment: dict[str, str],
    field: str,
    value: str | None,
    allowed: str,
) -> None:
    """The error has program, flag or variable, value and allowed values; exit code 2."""
    with pytest.raises(WrongInput) as rejected:
        OVEN.read(arguments, environment)

    error = rejected.value
    assert (error.where, error.field, error.value) == ("oven", field, value)
    assert allowed in error.allowed
    assert error.exit_code == 2


def test_a_wrong_value_is_reported_before_a_missing_one() -> None:
    """The value is what the user has just written."""
    with pytest.raises(WrongInput, match="--warm = '20'"):
        KITCHEN.read(["--warm=20"], {})
    with pytest.raises(WrongInput, match="--cook = None"):
        KITCHEN.read(["--heat=60"], {})


def test_a_borrowed_field_has_the_bounds_of_its_owner() -> None:
    """Default, description and bounds come from the other model unless they are given."""
    found = KITCHEN.read(["--cook=c", "--warm=50"], {})

    assert (found.heat, found.warm) == (180, 50)
    with pytest.raises(WrongInput, match="from 50 to 300"):
        KITCHEN.read(["--cook=c", "--heat=301"], {})


def test_the_help_has_bounds_variables_and_defaults(capsys: pytest.CaptureFixture[str]) -> None:
    """All of it comes from the model; variables without a flag are not in it."""
    with pytest.raises(SystemExit) as ended:
        OVEN.read(["-h"], {})

    text = " ".join(capsys.readouterr().out.split())
    assert ended.value.code == 0
    assert "python -m house.oven" in text
    assert "An oven." in text
    assert "above 0; BAKE; OLD_BAKE; default: 60)" in text
    assert "--fan [on|off]" in text
    assert "what is 100 % sure to be in it" in text
    assert "PLATES" not in text
