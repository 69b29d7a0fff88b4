"""The arguments that name a cell, the same for ``run`` and ``plan``."""

from __future__ import annotations

from typing import Annotated

import typer

ScenarioArgument = Annotated[
    str, typer.Argument(help="A name from the catalog, or a YAML file.", metavar="SCENARIO")
]
PolicyOption = Annotated[str | None, typer.Option(help="Policy instead of the scenario's.")]
SeedOption = Annotated[int | None, typer.Option(help="Seed instead of the scenario's.")]
SettingsOption = Annotated[
    list[str] | None, typer.Option("--set", help="key=value, e.g. profile.spike_mult=5")
]
