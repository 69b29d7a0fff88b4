"""Options that several verbs have, and what their values mean."""

from __future__ import annotations

import math
import secrets
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from lagbench.errors import WrongInput

if TYPE_CHECKING:
    from lagbench.catalog.catalog import Cell
    from lagbench.core.simulation.simulated_world import SimulatedEnvironment


def refuse(field: str, value: object, allowed: str, *, where: str = "command line") -> NoReturn:
    """Reject what was given to a field of the command line, or of a file."""
    raise WrongInput(where=where, field=field, value=value, allowed=allowed)


def require_own_names(option: str, names: Sequence[str]) -> None:
    """Reject two policies of one name: a table and its JSON have one place for each name."""
    for name in names:
        if (count := names.count(name)) > 1:
            allowed = "policies whose names, or names of files, differ"
            refuse(option, f"{name}, {count} times", allowed)


def finite(value: float | None) -> float | None:
    """Return an option's number; reject ``inf`` and ``nan``, which a lower bound lets through."""
    if value is not None and not math.isfinite(value):
        raise typer.BadParameter(f"{value} is not a finite number.")
    return value


def number(help: str, *, min: float | None = 0.001, **more: Any) -> Any:  # noqa: A002
    """Return an option that takes a finite number."""
    return typer.Option(min=min, callback=finite, help=help, **more)


A_LIMIT = "NAME=LIMIT, e.g. time_lag_p99_seconds=30"
ScenarioArgument = Annotated[
    str, typer.Argument(help="A name from the catalog, or a YAML file.", metavar="SCENARIO")
]
PolicyOption = Annotated[str | None, typer.Option(help="Policy instead of the scenario's.")]
SeedOption = Annotated[int | None, typer.Option(help="Seed instead of the scenario's.")]
SettingsOption = Annotated[
    list[str] | None, typer.Option("--set", help="key=value, e.g. profile.spike_mult=5")
]
SloOption = Annotated[
    list[str] | None,
    typer.Option(
        "--slo", metavar="NAME=LIMIT", help="A limit, e.g. time_lag_p99_seconds=30; repeatable."
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
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON, and nothing else on stdout.")]


def asked_cell(
    scenario: str, policy: str | None, seed: int | None, settings: Sequence[str] | None, **more: str
) -> tuple[Cell, dict[str, str]]:
    """Return the checked cell of these options, and what they override in the scenario."""
    from lagbench.catalog.catalog import checked_cell, parse_settings
    from lagbench.cli.terminal import Terminal
    from lagbench.core.policy.review.trigger_rules import unread_parameters

    overrides = parse_settings(settings or [])
    if seed is not None:
        overrides["seed"] = str(seed)
    overrides |= more
    cell = checked_cell(scenario, policy=policy, overrides=overrides)
    for finding in unread_parameters(cell.policy.manifest["spec"].get("triggers") or ()):
        field = f"{cell.policy.where}: {finding.field} = {finding.value}"
        text = f"{field} is {finding.happens}; instead: {finding.instead}"
        Terminal(stderr=True).warn(text)
    return cell, overrides


def played(cell: Cell) -> Cell:
    """Return a cell whose policies need no newer Kubernetes than the one that they name."""
    from lagbench.core.policy.policy import require_kubernetes

    for _, policy in cell.policies:
        require_kubernetes(policy)
    return cell


def conf_of(
    name: str, scenario: str, policy: str | None, overrides: dict[str, str]
) -> dict[str, Any]:
    """Return the conf of a new run; Airflow's server may have been started in another folder."""
    from lagbench.catalog.catalog_files import from_any_folder

    run_id = new_id(name)
    conf: dict[str, Any] = {"scenario": from_any_folder(scenario), "run_id": run_id}
    conf |= {"keep_bench": True, "overrides": overrides}
    return conf if policy is None else conf | {"policy": from_any_folder(policy)}


def new_id(scenario: str) -> str:
    """Return an id for a new run of a scenario."""
    from lagbench.core.scenario.run_names import new_run_id

    unique = secrets.token_hex(2)
    return new_run_id(scenario, planned_at=datetime.now(UTC), unique_digits=unique)


def environment_at(start: str | None) -> SimulatedEnvironment:
    """Return the simulator's environment for a stream that starts at ``--start``."""
    from lagbench.core.simulation.simulated_world import SimulatedEnvironment

    if start is None:
        return SimulatedEnvironment()
    return SimulatedEnvironment(starts_at_seconds=unix_second("--start", start))


def unix_second(field: str, text: str) -> int:
    """Return the Unix second of an option's instant."""
    from lagbench.core.kubernetes_values import NS_PER_SECOND, parse_instant_ns

    try:
        return parse_instant_ns(text) // NS_PER_SECOND
    except (TypeError, ValueError):
        allowed = "an instant with its time zone, e.g. 2026-11-23T08:59:30Z or …T09:59:30+01:00"
        refuse(field, text, allowed)


def slo_settings(limits: Sequence[str] | None) -> dict[str, str]:
    """Return the limits of ``--slo`` as settings of a scenario, by dotted key."""
    slo_limits(limits)
    return {f"slos.{key}": text for key, text in _limit_texts(limits).items()}


def slo_limits(
    limits: Sequence[str] | None, *, of_run: bool = False, known: Sequence[str] | None = None
) -> dict[str, Any]:
    """Return the limits that were given by ``--slo NAME=LIMIT`` or ``NAME.level=warn``.

    :param of_run: they are put in the place of the limits of a run, which are checked with them.
    :param known: the names that the command can judge; None: all.
    """
    from pydantic import ValidationError

    from lagbench.catalog.strict_yaml import parse_yaml
    from lagbench.core.scenario.slo_limits import Slos, with_limits

    given, names = dict[str, Any](), list(Slos.model_fields) if known is None else known
    for key, text in _limit_texts(limits).items():
        name, _, of_limit = key.partition(".")
        if name not in names:
            near = [one for one in names if name and one.startswith(f"{name}_")]
            refuse("--slo", key, ", ".join(near or names))
        value = parse_yaml(text, where=f"--slo {key}")
        given = with_limits(given, {name: {of_limit: value} if of_limit else value})
    if of_run:
        return given
    try:
        Slos.model_validate(given)
    except ValidationError as error:
        first = error.errors()[0]
        refuse(f"--slo {first['loc'][0]}", first["input"], first["msg"])
    return given


def _limit_texts(limits: Sequence[str] | None) -> dict[str, str]:
    from lagbench.catalog.catalog import parse_settings

    return parse_settings(limits or (), where="command line", field="--slo", example=A_LIMIT)
