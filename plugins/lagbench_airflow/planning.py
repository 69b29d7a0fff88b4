"""First task of a cell: check its parameters, and create the run folder with a prediction."""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Literal

import psutil

from lagbench.adapters.runs.run_folder import RunFolder
from lagbench.adapters.runs.run_manifest import write_manifest
from lagbench.catalog.catalog import checked_cell
from lagbench.core.cluster import (
    refuse_kind_on_cluster,
    refuse_on_cluster,
    refuse_without_own_broker,
)
from lagbench.core.compare import content_digest, policies_digest
from lagbench.core.plan import check_spark_fit
from lagbench.core.scenario import RunNames, new_run_id, require_known_hpa
from lagbench.embedded import bench
from lagbench.embedded.prometheus_program import require_prometheus
from lagbench.errors import WrongInput
from lagbench.results.prediction import predict_run
from lagbench_airflow.hooks import target
from lagbench_airflow.params import settings_of


def plan_run(params: Mapping[str, Any], *, dag_run: str) -> dict[str, Any]:
    """Validate the parameters and create the run folder; return the input of later tasks.

    Nothing is started: wrong input ends the run here.
    """
    overrides = settings_of(params)
    cell = checked_cell(
        str(params["scenario"]), policy=params.get("policy") or None, overrides=overrides
    )
    require_known_hpa(cell.scenario, is_embedded=target.is_embedded())
    if target.is_embedded():
        free = psutil.virtual_memory().available // 2**20
        check_spark_fit(cell.scenario, cell.policy, memory_mebibytes=free)
        if not bench.has_own_broker(bench.state_dir()):
            refuse_without_own_broker(cell.scenario)
        require_prometheus(cell.policy.manifest, where=cell.policy_name)
        for swapped in cell.swapped.values():
            require_prometheus(swapped.policy.manifest, where=swapped.name)
    else:
        refuse_on_cluster(cell.scenario)
        refuse_kind_on_cluster(cell.scenario)
    run_id = params.get("run_id") or new_run_id(
        cell.scenario.name, planned_at=datetime.now(UTC), unique_digits=secrets.token_hex(2)
    )
    folder = _new_folder(run_id)
    conf = {
        "scenario": params["scenario"],
        "policy": cell.policy_name,
        "overrides": overrides,
        "dag_run": dag_run,
    }
    fidelity: Literal["processes", "kubernetes"] = (
        "processes" if target.is_embedded() else "kubernetes"
    )
    write_manifest(
        folder,
        scenario=cell.scenario.name,
        policy=cell.policy_name,
        seed=cell.scenario.seed,
        fidelity=fidelity,
        conf=conf,
        scenario_text=cell.scenario_text,
        policy_text=cell.policy_text,
        created_at=time.time_ns(),
        cell={
            "policy": policies_digest(
                cell.policy.manifest, [s.policy.manifest for s in cell.swapped.values()]
            ),
            "target": content_digest(target.target_name()),
        },
    )
    for number, swapped in cell.swapped.items():
        folder.write_text(folder.swapped_policy(number), swapped.text)
    swapped_policies = {number: one.policy for number, one in cell.swapped.items()}
    predict_run(folder, cell.scenario, cell.policy, swapped_policies)
    return {
        "run_id": run_id,
        "run_folder": str(folder.path),
        "scenario": cell.scenario.name,
        "policy": cell.policy_name,
        "seed": cell.scenario.seed,
        "fidelity": fidelity,
    }


def _new_folder(run_id: str) -> RunFolder:
    """Create the run's folder; reject an id that another run has."""
    folder = RunFolder.create(RunNames(run_id).run_id)
    if folder.manifest.exists():
        raise WrongInput(
            where="conf", field="run_id", value=run_id, allowed="an id that no run has had yet"
        )
    return folder
