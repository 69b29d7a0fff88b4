"""Build the trigger form of ``scenario_run`` from the catalog when the Dag is parsed."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import time
from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, NoReturn, get_args

from airflow.sdk import Param

from lagbench import project
from lagbench.adapters.runs.run_folder import RunFolder
from lagbench.adapters.runs.run_manifest import write_manifest
from lagbench.catalog.catalog import checked_cell, parse_settings
from lagbench.catalog.catalog_files import (
    POLICY_LINES,
    SCENARIO_LINES,
    catalog_folder,
    file_name,
    from_any_folder,
    is_path,
    list_files,
    list_policies,
    list_scenarios,
    one_line,
    path_from_home,
    policies_folder,
    resolved,
)
from lagbench.catalog.experiments import load_experiment
from lagbench.catalog.strict_yaml import read_bytes
from lagbench.core.compare.cell_identity import content_digest, policies_digest
from lagbench.core.policy.policy import Policy
from lagbench.core.scenario.actions import Balancer
from lagbench.core.scenario.conf_limits import (
    FIELDS_VARIABLE,
    FOLDERS_VARIABLE,
    ConfLimits,
    reaching_fields,
)
from lagbench.core.scenario.payload import MOST_FILE_BYTES
from lagbench.core.scenario.run_names import RunNames, new_run_id
from lagbench.core.scenario.scenario import MAX_SEED, Scenario
from lagbench.core.scenario.stream_tail import RUN_TAIL_FIELD, tail_of
from lagbench.errors import WrongInput
from lagbench.orchestrator.sealed_conf import SEALED, read_sealed
from lagbench.orchestrator.target import require_playable
from lagbench.results.run_prediction import predict_run
from lagbench_airflow.hooks import target
from lagbench_airflow.hooks.kube import cluster_version, settings_of_cluster

FIRST_SCENARIO, NIGHTLY_SCENARIO = "hello", "quick_spike"

MOST_CANDIDATES = 10_000
"""Six minutes on two cores; ``lagbench advise --on spark`` does more."""

EXPERIMENT, CELL = "experiment", "cell"
"""Keys of the conf of an experiment's run: what that cell of the catalog sets is the catalog's."""

MORE_CELLS, NIGHTLY_VARIABLE = "more_cells", "LAGBENCH_NIGHTLY"
"""Field of the night's form, and the variable with the defaults of that form."""

OPENLINEAGE = "openlineage"
"""Airflow's TriggerDagRunOperator adds it to the conf when OpenLineage is on."""


def _optional(section: str, title: str, *, type: str = "string", **schema: Any) -> Param:  # noqa: A002
    """Return a field that may stay empty."""
    if "enum" in schema:
        schema["enum"] = [None, "", *schema["enum"]]
    return Param(None, type=["null", type], section=section, title=title, **schema)


def _settings() -> dict[str, tuple[str, Param]]:
    """Return the fields that stand for one setting of the scenario, with that setting."""

    def load(title: str, type: str = "number", **schema: Any) -> Param:  # noqa: A002
        empty = "Empty: the scenario's own value."
        return _optional("Load", title, type=type, description=empty, **schema)

    def consumers(title: str, *enum: str) -> Param:
        return _optional("Consumers", title, enum=enum)

    seed = load("Seed of the event stream", "integer", minimum=0, maximum=MAX_SEED)
    hold = load("Length of a spike in seconds", exclusiveMinimum=0)
    commit = consumers("Commit of offsets", "manual", "transactional", "auto")
    graceful = consumers("Graceful shutdown of pods", "on", "off")
    rate = load("Events per second outside spikes", exclusiveMinimum=0)
    return {
        "seed": ("seed", seed),
        "rate": ("profile.rate_per_second", rate),
        "spike_mult": ("profile.spike_mult", load("Spike as a multiple of that rate", minimum=1)),
        "spike_hold_seconds": ("profile.spike_hold_seconds", hold),
        "balancer": ("consumer.balancer", consumers("Balancer", *get_args(Balancer))),
        "graceful_shutdown": ("consumer.graceful_shutdown", graceful),
        "commit": ("consumer.commit", commit),
    }


def _allowed_folders() -> list[Path]:
    """Return the folders below which a conf may name files; a relative one is rejected."""
    named = [one for one in os.environ.get(FOLDERS_VARIABLE, "").split(os.pathsep) if one]
    for wrong in (one for one in named if not Path(one).is_absolute()):
        allowed = f"absolute paths with {os.pathsep} between them"
        refuse(FOLDERS_VARIABLE, wrong, allowed, where="environment")
    return [resolved(FOLDERS_VARIABLE, one) for one in named]


def _catalog(
    names: list[str], folder: Path, default: str | None, lines: tuple[str, ...], **schema: Any
) -> Param:
    """Return a field that offers names and files of allowed folders, and takes other paths, too.

    Airflow's page has choices with texts for an ``enum`` only, which would reject every path. In
    Draft 7 a ``$ref`` replaces what stands beside it: the page reads the one, the check the other.
    """
    text: dict[str, Any] = {"type": ["null", "string"] if default is None else "string"}
    schema |= {"$schema": "http://json-schema.org/draft-07/schema#", "$ref": "#/definitions/text"}
    names = [*names, *list_files(_allowed_folders(), lines)]
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
        **{name: param for name, (_, param) in _settings().items()},
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
    slo: dict[str, Any] = {
        "type": "string",
        "format": "multiline",
        "title": "SLOs",
        "description": lines,
    }
    count: dict[str, Any] = {"type": "integer", "minimum": 1, "maximum": MOST_CANDIDATES}
    below = "A new file below a folder of LAGBENCH_ALLOWED_FOLDERS; empty: beside the advice."
    yes: dict[str, Any] = {"type": "boolean"}
    return {
        "scenario": form["scenario"],
        "slo": Param("time_lag_p99_seconds=30", **slo),
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
    folders = _allowed_folders()
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
    for name, (setting, _) in _settings().items():
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
    run_id = params.get("run_id") or new_run_id(
        cell.scenario.name, planned_at=datetime.now(UTC), unique_digits=secrets.token_hex(2)
    )
    payload, consumer = cell.scenario.payload, cell.scenario.consumer
    samples = payload and _checked(payload.file, payload.sha256, "payload.file")
    manifest = consumer.manifest and _checked(
        consumer.manifest, consumer.manifest_sha256, "consumer.manifest"
    )
    folder = _new_folder(run_id)
    if samples:
        folder.write_text(folder.payload, samples)
    if manifest:
        folder.write_text(folder.own_deployment, manifest, mode=0o600)
    conf = {
        "scenario": path_from_home(str(params["scenario"])),
        "policy": path_from_home(named or "") or None,  # None: the scenario's own
        "overrides": overrides,
        "dag_run": dag_run,
    }
    fidelity: Literal["processes", "kubernetes"] = "processes" if is_embedded else "kubernetes"
    (_, policy), *others = cell.policies
    digests = {
        "policy": policies_digest(policy.manifest, [other.manifest for _, other in others]),
        "target": content_digest(target.target_name()),
    }
    folders = [folder] if cell.second is None else [folder, folder.make_second()]
    version = None if is_embedded else cluster_version()

    def predicted_as(policy: Policy) -> Policy:
        return Policy.read(policy.manifest, where=policy.where, kubernetes=version)

    created_at = time.time_ns()
    tail = tail_of(cell.scenario, started_replicas=cell.policy.limits.started_replicas)
    for group, place in zip(cell.groups, folders, strict=True):
        write_manifest(
            place,
            scenario=group.scenario.name,
            policy=group.policy_name,
            seed=group.scenario.seed,
            fidelity=fidelity,
            conf=conf,
            scenario_text=group.scenario_text,
            policy_text=group.policy_text,
            created_at=created_at,
            cell=digests,
        )
        if place.is_second:
            place.update_manifest(**{RUN_TAIL_FIELD: None if tail is None else asdict(tail)})
        for number, swapped in group.swapped.items():
            place.write_text(place.swapped_policy(number), swapped.text)
        swapped_policies = {
            number: predicted_as(one.policy) for number, one in group.swapped.items()
        }
        predict_run(place, group.scenario, predicted_as(group.policy), swapped_policies)
    return {
        "run_id": run_id,
        "run_folder": str(folder.path),
        "scenario": cell.scenario.name,
        "policy": cell.policy_name,
        "seed": cell.scenario.seed,
        "fidelity": fidelity,
    }


def _checked(file: str, sha256: str | None, field: str) -> str:
    """Return the content of a user's file, which the run folder gets."""
    content = read_bytes(Path(file), most=MOST_FILE_BYTES)
    if hashlib.sha256(content).hexdigest() != sha256:
        allowed = "the content that was checked a moment ago: do not change it meanwhile"
        refuse(field, "another content", allowed, where=file)
    return content.decode()


def _new_folder(run_id: str) -> RunFolder:
    """Create the run's folder; reject an id that another run has."""
    folder = RunFolder.create(RunNames(run_id).run_id)
    if folder.manifest.exists():
        refuse("run_id", run_id, "an id that no run has had yet")
    return folder
