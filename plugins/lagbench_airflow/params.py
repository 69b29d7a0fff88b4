"""Build the trigger form of ``scenario_run`` from the catalog when the Dag is parsed."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

from airflow.sdk import Param

from lagbench import project
from lagbench.catalog.catalog import checked_cell
from lagbench.catalog.catalog_files import (
    POLICY_LINES,
    SCENARIO_LINES,
    catalog_folder,
    file_name,
    list_files,
    list_policies,
    list_scenarios,
    one_line,
    path_from_home,
    policies_folder,
)
from lagbench.catalog.conf import (
    CELL,
    EXPERIMENT,
    allowed_folders,
    conf_limits,
    refuse,
    refuse_unknown,
    settings_of,
)
from lagbench.core.scenario.actions import Balancer
from lagbench.core.scenario.scenario import MAX_SEED
from lagbench.orchestrator.sealed_conf import SEALED, read_sealed
from lagbench.orchestrator.target import require_playable
from lagbench.results.planned_run import make_run_folder
from lagbench_airflow.hooks import target
from lagbench_airflow.hooks.kube import cluster_version, settings_of_cluster

FIRST_SCENARIO, NIGHTLY_SCENARIO = "hello", "quick_spike"

MOST_CANDIDATES = 10_000
"""Six minutes on two cores; ``lagbench advise --on spark`` does more."""

MORE_CELLS, NIGHTLY_VARIABLE = "more_cells", "LAGBENCH_NIGHTLY"
"""Field of the night's form, and the variable with the defaults of that form."""


def _optional(section: str, title: str, *, type: str = "string", **schema: Any) -> Param:  # noqa: A002
    """Return a field that may stay empty."""
    if "enum" in schema:
        schema["enum"] = [None, "", *schema["enum"]]
    return Param(None, type=["null", type], section=section, title=title, **schema)


def _settings() -> dict[str, Param]:
    """Return the fields that stand for one setting of the scenario: those of ``SETTINGS``."""

    def load(title: str, type: str = "number", **schema: Any) -> Param:  # noqa: A002
        empty = "Empty: the scenario's own value."
        return _optional("Load", title, type=type, description=empty, **schema)

    def consumers(title: str, *enum: str) -> Param:
        return _optional("Consumers", title, enum=enum)

    return {
        "seed": load("Seed of the event stream", "integer", minimum=0, maximum=MAX_SEED),
        "rate": load("Events per second outside spikes", exclusiveMinimum=0),
        "spike_mult": load("Spike as a multiple of that rate", minimum=1),
        "spike_hold_seconds": load("Length of a spike in seconds", exclusiveMinimum=0),
        "balancer": consumers("Balancer", *get_args(Balancer)),
        "graceful_shutdown": consumers("Graceful shutdown of pods", "on", "off"),
        "commit": consumers("Commit of offsets", "manual", "transactional", "auto"),
    }


def _catalog(
    names: list[str], folder: Path, default: str | None, lines: tuple[str, ...], **schema: Any
) -> Param:
    """Return a field that offers names and files of allowed folders, and takes other paths, too.

    Airflow's page has choices with texts for an ``enum`` only, which would reject every path. In
    Draft 7 a ``$ref`` replaces what stands beside it: the page reads the one, the check the other.
    """
    text: dict[str, Any] = {"type": ["null", "string"] if default is None else "string"}
    schema |= {"$schema": "http://json-schema.org/draft-07/schema#", "$ref": "#/definitions/text"}
    names = [*names, *list_files(allowed_folders(), lines)]
    schema |= {"enum": names if default is not None else [None, *names]}
    texts = {name: f"{file_name(name)}: {one_line(name, folder)}" for name in names}
    schema |= {"values_display": texts}
    return Param(default, definitions={"text": text}, **text, **schema)


def scenario_run_params(first: str = FIRST_SCENARIO) -> dict[str, Param]:
    """Return the form; an empty field keeps the value of the scenario's file."""
    scenarios = sorted(list_scenarios(), key=lambda name: (name != first, name.startswith("lab_")))
    policy = _catalog(
        list_policies(),
        policies_folder(),
        None,
        POLICY_LINES,
        title="Scaling policy",
        description="Empty: the scenario's own. Files of LAGBENCH_ALLOWED_FOLDERS are last.",
    )
    policy.schema["values_display"]["null"] = "the scenario's own"
    return {
        "scenario": _catalog(
            scenarios,
            catalog_folder() / "scenarios",
            first,
            SCENARIO_LINES,
            title="Scenario",
            description="hello takes about 3 minutes; the command lagbench scenarios prints "
            "duration and cores of each.",
        ),
        "policy": policy,
        "keep_bench": Param(
            True,
            type="boolean",
            title="Keep the bench",
            description="Keep the bench running if this run started it.",
        ),
        "ask": Param(
            True,
            type="boolean",
            title="Ask before a run against a cluster",
            description="The run then waits for an answer; the embedded bench never asks.",
        ),
        **_settings(),
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
            "Run id",
            pattern=r"^([a-z0-9]([a-z0-9-]{0,50}[a-z0-9])?)?$",
            description="Empty: made from the scenario's name and the time.",
        ),
    }


def rehearsal_params() -> dict[str, Param]:
    """Return the form of the standing rehearsal; a schedule needs defaults for all fields.

    ``LAGBENCH_NIGHTLY`` has other defaults, as the JSON of a conf.
    """
    form = scenario_run_params(NIGHTLY_SCENARIO)
    for name in ("seed", "overrides"):
        form[name].schema["section"] = "All cells"
    more = _optional(
        "More cells",
        "Further cells of the night",
        format="multiline",
        description="SCENARIO, or SCENARIO POLICY, one a line; they run one after the other.",
    )
    fields = ("scenario", "policy", "seed", "overrides")
    night = {**{name: form[name] for name in fields}, MORE_CELLS: more}
    given = os.environ.get(NIGHTLY_VARIABLE) or "{}"
    try:
        defaults = dict(json.loads(given))
    except (ValueError, TypeError, RecursionError) as error:
        refuse(NIGHTLY_VARIABLE, given, f"a JSON object ({error})", where="environment")
    refuse_unknown(defaults, night)
    for name, value in defaults.items():
        night[name].value = value
    return night


def advice_params() -> dict[str, Param]:
    """Return the form of the Dag ``advise``."""
    form = scenario_run_params(NIGHTLY_SCENARIO)
    form["policy"].schema["title"] = "Present policy"
    lines = "NAME=LIMIT, one a line. All must hold; the first is the axis of the front."
    slo: dict[str, Any] = {"type": "string", "format": "multiline", "title": "SLOs"}
    count: dict[str, Any] = {"type": "integer", "minimum": 1, "maximum": MOST_CANDIDATES}
    below = "A new file below a folder of LAGBENCH_ALLOWED_FOLDERS; empty: beside the advice."
    yes: dict[str, Any] = {"type": "boolean"}
    return {
        "scenario": form["scenario"],
        "slo": Param("time_lag_p99_seconds=30", description=lines, **slo),
        "policy": form["policy"],
        "candidates": Param(2000, title="Simulated policies", **count),
        "prove": Param(False, title="Rehearse what is advised, in two pairs", **yes),
        "ask": Param(True, title="Ask before the policy is written", **yes),
        "write_to": _optional("Result", "File of the approved policy", description=below),
    }


def housekeeping_params() -> dict[str, Param]:
    """Return the form of ``housekeeping``."""
    tidy: dict[str, Any] = {"section": "Housekeeping"}
    days = Param(30, type="integer", minimum=0, title="Keep runs for days", **tidy)
    failed = Param(False, type="boolean", title="Also delete runs that did not pass", **tidy)
    return {"keep_days": days, "including_failed": failed}


def lifecycle_params() -> dict[str, Param]:
    """Return the form of ``bench_lifecycle``."""
    actions = Param("up", type="string", enum=["up", "down", "housekeeping"], title="Action")
    return {"action": actions, **housekeeping_params()}


def plan_run(params: Mapping[str, Any], *, dag_run: str) -> dict[str, Any]:
    """Validate the parameters and create the run folder; return the input of later tasks.

    Nothing is started: wrong input ends the run here.
    """
    refuse_unknown(params, scenario_run_params(), (SEALED, EXPERIMENT, CELL))
    limits = None
    if params.get(SEALED) is None:
        limits = conf_limits(params)
    else:  # by the command line, whose caller's rights are the limit
        params = read_sealed(project.state_dir(), params[SEALED], dag_run=dag_run)
    overrides, named = settings_of(params), params.get("policy") or None
    cell = checked_cell(str(params["scenario"]), policy=named, overrides=overrides, limits=limits)
    is_embedded = target.is_embedded()
    on = None if is_embedded else settings_of_cluster()
    require_playable(cell, on, project.state_dir())
    folder = make_run_folder(
        cell,
        params.get("run_id"),
        conf={
            "scenario": path_from_home(str(params["scenario"])),
            "policy": path_from_home(named or "") or None,  # None: the scenario's own
            "overrides": overrides,
            "dag_run": dag_run,
        },
        fidelity="processes" if is_embedded else "kubernetes",
        target=target.target_name(),
        kubernetes=None if is_embedded else cluster_version(),
    )
    fields = ("run_id", "scenario", "policy", "seed", "fidelity")
    manifest = folder.read_json(folder.manifest)
    return {"run_folder": str(folder.path), **{name: manifest[name] for name in fields}}
