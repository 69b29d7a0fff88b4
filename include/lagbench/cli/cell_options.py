"""The arguments of several commands: those that name a cell, and the start of a simulation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from lagbench.core.simulation.simulated_world import SimulatedEnvironment

ScenarioArgument = Annotated[
    str, typer.Argument(help="A name from the catalog, or a YAML file.", metavar="SCENARIO")
]
PolicyOption = Annotated[str | None, typer.Option(help="Policy instead of the scenario's.")]
SeedOption = Annotated[int | None, typer.Option(help="Seed instead of the scenario's.")]
SettingsOption = Annotated[
    list[str] | None, typer.Option("--set", help="key=value, e.g. profile.spike_mult=5")
]
EnvFileOption = Annotated[
    Path | None,
    typer.Option(
        help="NAME=value lines: what your consumer's Secrets have (consumer.kind own, embedded)."
    ),
]
StartOption = Annotated[
    str | None,
    typer.Option(
        metavar="INSTANT",
        help="The stream's start, for cron triggers, e.g. 2026-11-23T08:59:30Z; default: "
        "2026-01-05T00:00:00Z, a Monday.",
    ),
]
TargetOption = Annotated[
    str, typer.Option(help="embedded, kind (of make kind), or context:NAME of a kubeconfig.")
]
TargetSettingsOption = Annotated[
    Path | None,
    typer.Option(help="The cluster's settings; default k8s/overlays/context/settings/settings.env"),
]


def new_id(scenario: str) -> str:
    """Return an id for a new run of a scenario."""
    import secrets
    from datetime import UTC, datetime

    from lagbench.core.scenario.run_names import new_run_id

    unique = secrets.token_hex(2)
    return new_run_id(scenario, planned_at=datetime.now(UTC), unique_digits=unique)


def finite(value: float | None) -> float | None:
    """Return an option's number; reject ``inf`` and ``nan``, which a lower bound lets through."""
    if value is not None and not math.isfinite(value):
        raise typer.BadParameter(f"{value} is not a finite number.")
    return value


def environment_at(start: str | None) -> SimulatedEnvironment:
    """Return the simulator's environment for a stream that starts at ``--start``."""
    from lagbench.core.kubernetes.kubernetes_values import NS_PER_SECOND, parse_instant_ns
    from lagbench.core.simulation.simulated_world import SimulatedEnvironment
    from lagbench.errors import WrongInput

    if start is None:
        return SimulatedEnvironment()
    try:
        at_ns = parse_instant_ns(start)
    except (TypeError, ValueError) as error:
        allowed = "an instant with its time zone, e.g. 2026-11-23T08:59:30Z or …T09:59:30+01:00"
        raise WrongInput(
            where="command line", field="--start", value=start, allowed=allowed
        ) from error
    return SimulatedEnvironment(starts_at_seconds=at_ns // NS_PER_SECOND)


def slo_limits(settings: Sequence[str]) -> dict[str, Any]:
    """Return the limits that were given by ``--set slos.NAME=VALUE``.

    :raises WrongInput: there is no such SLO, or the value is none for it.
    """
    from pydantic import ValidationError

    from lagbench.catalog.catalog import parse_settings
    from lagbench.catalog.strict_yaml import parse_yaml
    from lagbench.core.scenario.scenario import Slos
    from lagbench.errors import WrongInput

    where, given = "command line", dict[str, Any]()
    for key, text in parse_settings(settings, where=where, field="--set").items():
        part, _, name = key.partition(".")
        if part != "slos" or name not in Slos.model_fields:
            allowed = ", ".join(f"slos.{known}" for known in Slos.model_fields)
            raise WrongInput(where=where, field="--set", value=key, allowed=allowed)
        given[name] = parse_yaml(text, where=f"--set {key}")
    try:
        Slos.model_validate(given)
    except ValidationError as error:
        first = error.errors()[0]
        field = f"--set slos.{first['loc'][0]}"
        value, allowed = first["input"], first["msg"]
        raise WrongInput(where=where, field=field, value=value, allowed=allowed) from error
    return given
