"""Read the conf of a Dag: its settings, what it may reach, and that nothing in it is ignored."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, NoReturn

from lagbench.catalog.catalog import parse_settings
from lagbench.catalog.catalog_files import from_any_folder, is_path, resolved
from lagbench.catalog.experiments import load_experiment
from lagbench.core.scenario.conf_limits import (
    FIELDS_VARIABLE,
    FOLDERS_VARIABLE,
    ConfLimits,
    reaching_fields,
)
from lagbench.core.scenario.scenario import Scenario
from lagbench.errors import WrongInput

EXPERIMENT, CELL = "experiment", "cell"
"""Keys of the conf of an experiment's run: what that cell of the catalog sets is the catalog's."""

SETTINGS = {
    "seed": "seed",
    "rate": "profile.rate_per_second",
    "spike_mult": "profile.spike_mult",
    "spike_hold_seconds": "profile.spike_hold_seconds",
    "balancer": "consumer.balancer",
    "graceful_shutdown": "consumer.graceful_shutdown",
    "commit": "consumer.commit",
}
"""Fields of the form that stand for one setting of the scenario."""

OPENLINEAGE = "openlineage"
"""Airflow's TriggerDagRunOperator adds it to the conf when OpenLineage is on."""


def allowed_folders() -> list[Path]:
    """Return the folders below which a conf may name files; a relative one is rejected."""
    named = [one for one in os.environ.get(FOLDERS_VARIABLE, "").split(os.pathsep) if one]
    for wrong in (one for one in named if not Path(one).is_absolute()):
        allowed = f"absolute paths with {os.pathsep} between them"
        refuse(FOLDERS_VARIABLE, wrong, allowed, where="environment")
    return [resolved(FOLDERS_VARIABLE, one) for one in named]


def refuse_unknown(
    params: Mapping[str, Any], form: Collection[str], besides: Collection[str] = ()
) -> None:
    """Reject a key of the conf that nothing reads: its value would not be what is measured."""
    for name in sorted(params.keys() - {*form, *besides, OPENLINEAGE}):
        refuse(name, params[name], f"a field of the form: {', '.join(form)}")


def refuse(field: str, value: object, allowed: str, *, where: str = "conf") -> NoReturn:
    """Reject a field of a conf."""
    raise WrongInput(where=where, field=field, value=value, allowed=allowed)


def conf_limits(params: Mapping[str, Any]) -> ConfLimits:
    """Read what the deployer allows, and what a cell of the catalog's experiments has itself."""
    reaching = dict(reaching_fields(Scenario))
    folders = allowed_folders()
    named = os.environ.get(FIELDS_VARIABLE, "").replace(",", " ").split()
    for wrong in (one for one in named if one not in reaching):
        refuse(FIELDS_VARIABLE, wrong, ", ".join(reaching), where="environment")
    names: set[str] = set()
    overrides: Mapping[str, str] = {}
    if (experiment := params.get(EXPERIMENT)) is not None:
        if is_path(str(experiment)):
            refuse(EXPERIMENT, experiment, "a name of the catalog")
        found = load_experiment(str(experiment))
        cells = {one.name: one for one in found.cells}
        scenario, cell = from_any_folder(found.scenario), str(params.get(CELL))
        for key, allowed_here in ((CELL, list(cells)), ("scenario", [scenario])):
            if str(params.get(key)) not in allowed_here:
                allowed = f"of the experiment {experiment}: {', '.join(allowed_here)}"
                refuse(key, params.get(key), allowed)
        names = {scenario, from_any_folder(cells[cell].policy or "")}
        overrides = found.overrides_of(cells[cell])
    return ConfLimits(
        fields=reaching,
        allowed_folders=tuple(folders),
        allowed_fields=frozenset(named),
        names=frozenset(names),
        overrides=overrides,
    )


def settings_of(params: Mapping[str, Any]) -> dict[str, str]:
    """Return a run's overrides as dotted setting -> text; the form's own fields take precedence."""
    settings = _overrides(params.get("overrides"))
    for name, setting in SETTINGS.items():
        value = params.get(name)
        if value is not None and value != "":
            settings[setting] = str(value)
    return settings


def _overrides(given: Any) -> dict[str, str]:
    """Read the field: Airflow's page sends lines as text, and a JSON object as an object."""
    if not given:
        return {}
    if isinstance(given, str) and given.lstrip().startswith("{"):
        try:  # an object as text, e.g. in the conf of a client that quotes it
            given = json.loads(given)
        except (ValueError, RecursionError) as error:
            refuse("overrides", given, f"key=value lines, or a JSON object ({error})")
    if isinstance(given, Mapping):
        return dict(_dotted(given))
    lines = [line.strip() for line in str(given).splitlines() if line.strip()]
    return parse_settings(lines, where="conf", field="overrides")


def _dotted(settings: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, str]]:
    """Yield dotted setting and text; an object inside the object is a section of the scenario."""
    for key, value in settings.items():
        if isinstance(value, Mapping):
            yield from _dotted(value, f"{above}{key}.")
        else:
            yield f"{above}{key}", value if isinstance(value, str) else json.dumps(value)
