"""The arguments that name a cell, the same for ``run`` and ``plan``."""

from __future__ import annotations

from pathlib import Path
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
TargetOption = Annotated[
    str, typer.Option(help="embedded, kind (of make kind), or context:NAME of a kubeconfig.")
]
TargetSettingsOption = Annotated[
    Path | None,
    typer.Option(help="The cluster's settings; default k8s/overlays/context/settings/settings.env"),
]
