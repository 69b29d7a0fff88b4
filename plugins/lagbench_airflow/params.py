"""Build the trigger form of ``scenario_run`` from the catalog when the Dag is parsed."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, get_args

from airflow.sdk import Param

from lagbench.catalog.catalog_files import list_policies, list_scenarios
from lagbench.core.scenario import (
    FIELDS_VARIABLE,
    FOLDERS_VARIABLE,
    MAX_SEED,
    Balancer,
    ConfLimits,
    Scenario,
    reaching_fields,
)
from lagbench.errors import WrongInput
from lagbench.orchestrator.sealed_conf import SEALED, read_sealed
from lagbench.project import state_dir

DEFAULT_SCENARIO = "quick_spike"

_SETTING_OF_PARAM = {
    "seed": "seed",
    "balancer": "consumer.balancer",
    "drain": "consumer.graceful_shutdown",  # the name in the conf of earlier runs
    "graceful_shutdown": "consumer.graceful_shutdown",
    "commit": "consumer.commit",
    "rate": "profile.rate_per_second",
    "spike_mult": "profile.spike_mult",
    "spike_hold_seconds": "profile.spike_hold_seconds",
}

EXPERIMENT, CELL = "experiment", "cell"
"""Keys of the conf of an experiment's run: what that cell of the catalog sets is the catalog's."""
OPENLINEAGE = "openlineage"
"""Airflow's TriggerDagRunOperator adds it to the conf when OpenLineage is on."""


def scenario_run_params() -> dict[str, Param]:
    """Return the form; an empty field keeps the value of the scenario's file."""
    balancers = list(get_args(Balancer))
    return {
        "scenario": Param(
            DEFAULT_SCENARIO,
            type="string",
            examples=list_scenarios(),
            title="Scenario",
            description="A name from the catalog, or a path that the deployer allows.",
        ),
        "policy": Param(
            None,
            type=["null", "string"],
            examples=list_policies(),
            title="Scaling policy",
            description="A name from k8s/policies; empty: the scenario's own.",
        ),
        "keep_bench": Param(
            True,
            type="boolean",
            title="Keep the bench",
            description="Keep the bench running if this run started it.",
        ),
        "seed": _optional(
            "Load", type="integer", minimum=0, maximum=MAX_SEED, title="Seed of the event stream"
        ),
        "rate": _optional(
            "Load", type="number", exclusiveMinimum=0, title="Events per second outside spikes"
        ),
        "spike_mult": _optional("Load", type="number", minimum=1, title="Spike as a multiple"),
        "spike_hold_seconds": _optional(
            "Load", type="number", exclusiveMinimum=0, title="Length of a spike in seconds"
        ),
        "balancer": _optional("Consumers", type="string", enum=balancers, title="Balancer"),
        "graceful_shutdown": _optional(
            "Consumers", type="string", enum=["on", "off"], title="Graceful shutdown of pods"
        ),
        "commit": _optional(
            "Consumers",
            type="string",
            enum=["manual", "transactional", "auto"],
            title="Commit of offsets",
        ),
        "overrides": Param(
            None,
            type=["null", "object", "string"],
            format="multiline",
            section="Everything else",
            title="Settings",
            description="One key=value a line, e.g. slos.time_lag_p99_seconds=30, "
            'or a JSON object, e.g. {"consumer.concurrency": 4}.',
        ),
        "run_id": _optional(
            "Everything else",
            type="string",
            pattern=r"^([a-z0-9]([a-z0-9-]{0,50}[a-z0-9])?)?$",
            title="Run id",
            description="Empty: made from the scenario's name and the time.",
        ),
    }


def rehearsal_params() -> dict[str, Param]:
    """Return the form of the standing rehearsal; a schedule needs defaults for all fields."""
    form = scenario_run_params()
    return {"scenario": form["scenario"], "policy": form["policy"]}


def lifecycle_params() -> dict[str, Param]:
    """Return the form of ``bench_lifecycle``."""
    return {
        "action": Param("up", type="string", enum=["up", "down", "housekeeping"], title="Action"),
        "keep_days": Param(
            30, type="integer", minimum=0, section="Housekeeping", title="Keep runs for days"
        ),
        "including_failed": Param(
            False,
            type="boolean",
            section="Housekeeping",
            title="Also delete runs that did not pass",
        ),
    }


def refuse_unknown(params: Mapping[str, Any]) -> None:
    """Reject a key of the conf that nothing reads: its value would not be what is measured."""
    form = list(scenario_run_params())
    known = {*form, *_SETTING_OF_PARAM, OPENLINEAGE, SEALED, EXPERIMENT, CELL}
    for name in sorted(params.keys() - known):
        allowed = f"a field of the form: {', '.join(form)}"
        raise WrongInput(where="conf", field=name, value=params[name], allowed=allowed)


def opened(
    params: Mapping[str, Any], *, dag_run: str
) -> tuple[Mapping[str, Any], ConfLimits | None]:
    """Return the parameters of a Dag run, and the limits on what they may name.

    None: the command line has sealed them, whose caller's rights are the limit.
    """
    if params.get(SEALED) is not None:
        return read_sealed(state_dir(), params[SEALED], dag_run=dag_run), None
    return params, _limits(params)


def _limits(params: Mapping[str, Any]) -> ConfLimits:
    """Read what the deployer allows, and what a cell of the catalog's experiments has itself."""
    from lagbench.catalog.catalog_files import from_any_folder, is_path, resolved
    from lagbench.catalog.experiments import load_experiment

    reaching = dict(reaching_fields(Scenario))
    folders = [one for one in os.environ.get(FOLDERS_VARIABLE, "").split(os.pathsep) if one]
    named = os.environ.get(FIELDS_VARIABLE, "").replace(",", " ").split()
    for wrong in (one for one in folders if not Path(one).is_absolute()):
        allowed = f"absolute paths with {os.pathsep} between them"
        raise WrongInput(where="environment", field=FOLDERS_VARIABLE, value=wrong, allowed=allowed)
    for wrong in (one for one in named if one not in reaching):
        allowed = ", ".join(reaching)
        raise WrongInput(where="environment", field=FIELDS_VARIABLE, value=wrong, allowed=allowed)
    names: set[str] = set()
    overrides: Mapping[str, str] = {}
    if (experiment := params.get(EXPERIMENT)) is not None:
        if is_path(str(experiment)):
            allowed = "a name of the catalog"
            raise WrongInput(where="conf", field=EXPERIMENT, value=experiment, allowed=allowed)
        found = load_experiment(str(experiment))
        cells = {one.name: one for one in found.cells}
        scenario, cell = from_any_folder(found.scenario), str(params.get(CELL))
        for key, allowed_here in ((CELL, list(cells)), ("scenario", [scenario])):
            if str(params.get(key)) not in allowed_here:
                allowed = f"of the experiment {experiment}: {', '.join(allowed_here)}"
                raise WrongInput(where="conf", field=key, value=params.get(key), allowed=allowed)
        names = {scenario, from_any_folder(cells[cell].policy or "")}
        overrides = found.overrides_of(cells[cell])
    return ConfLimits(
        fields=reaching,
        allowed_folders=tuple(resolved(FOLDERS_VARIABLE, one) for one in folders),
        allowed_fields=frozenset(named),
        names=frozenset(names),
        overrides=overrides,
    )


def settings_of(params: Mapping[str, Any]) -> dict[str, str]:
    """Return a run's overrides as dotted setting -> text; the form's own fields take precedence."""
    settings = _overrides(params.get("overrides"))
    for name, setting in _SETTING_OF_PARAM.items():
        value = params.get(name)
        if value is not None and value != "":
            settings[setting] = str(value)
    return settings


def _overrides(given: Any) -> dict[str, str]:
    """Read the field: Airflow's page sends lines as text, and a JSON object as an object."""
    from lagbench.catalog.catalog import parse_settings  # needs numpy: not while the Dag is parsed

    if not given:
        return {}
    if isinstance(given, str) and given.lstrip().startswith("{"):
        given = _json_object(given)
    if isinstance(given, Mapping):
        return dict(_dotted(given))
    lines = [line.strip() for line in str(given).splitlines() if line.strip()]
    return parse_settings(lines, where="conf", field="overrides")


def _json_object(text: str) -> Any:
    """Read an object given as text, e.g. in the conf of a client that quotes it."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        allowed = f"key=value lines, or a JSON object ({error})"
        raise WrongInput(where="conf", field="overrides", value=text, allowed=allowed) from error


def _dotted(settings: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, str]]:
    """Yield dotted setting and text; an object inside the object is a section of the scenario."""
    for key, value in settings.items():
        if isinstance(value, Mapping):
            yield from _dotted(value, f"{above}{key}.")
        else:
            yield f"{above}{key}", value if isinstance(value, str) else json.dumps(value)


def _optional(section: str, *, type: str, enum: list[str] | None = None, **schema: Any) -> Param:  # noqa: A002
    """Return a field that may stay empty."""
    extra: dict[str, Any] = {} if enum is None else {"enum": [None, "", *enum]}
    return Param(None, type=["null", type], section=section, **extra, **schema)
