"""First task of a cell: check its parameters, and create the run folder with a prediction."""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from lagbench import project
from lagbench.adapters.runs.run_folder import RunFolder
from lagbench.adapters.runs.run_manifest import write_manifest
from lagbench.catalog.catalog import checked_cell
from lagbench.catalog.catalog_files import file_name
from lagbench.catalog.strict_yaml import read_bytes
from lagbench.core.compare.cell_identity import content_digest, policies_digest
from lagbench.core.scenario.payload import MOST_FILE_BYTES
from lagbench.core.scenario.run_names import RunNames, new_run_id
from lagbench.core.scenario.stream_tail import RUN_TAIL_FIELD, tail_of
from lagbench.errors import WrongInput
from lagbench.orchestrator.target import require_playable
from lagbench.results.run_prediction import predict_run
from lagbench_airflow.hooks import target
from lagbench_airflow.hooks.kube import settings_of_cluster
from lagbench_airflow.params import opened, refuse_unknown, settings_of


def plan_run(params: Mapping[str, Any], *, dag_run: str) -> dict[str, Any]:
    """Validate the parameters and create the run folder; return the input of later tasks.

    Nothing is started: wrong input ends the run here.
    """
    refuse_unknown(params)
    params, limits = opened(params, dag_run=dag_run)
    overrides = settings_of(params)
    cell = checked_cell(
        str(params["scenario"]),
        policy=params.get("policy") or None,
        overrides=overrides,
        limits=limits,
    )
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
        "scenario": file_name(str(params["scenario"])),
        "policy": file_name(params.get("policy") or "") or None,  # None: the scenario's own
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
        swapped_policies = {number: one.policy for number, one in group.swapped.items()}
        predict_run(place, group.scenario, group.policy, swapped_policies)
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
        raise WrongInput(
            where=file,
            field=field,
            value="another content",
            allowed="the content that was checked a moment ago: do not change it meanwhile",
        )
    return content.decode()


def _new_folder(run_id: str) -> RunFolder:
    """Create the run's folder; reject an id that another run has."""
    folder = RunFolder.create(RunNames(run_id).run_id)
    if folder.manifest.exists():
        raise WrongInput(
            where="conf", field="run_id", value=run_id, allowed="an id that no run has had yet"
        )
    return folder
