"""Make the folder of a planned run: what it is made of, its manifest, its prediction."""

from __future__ import annotations

import hashlib
import secrets
import time
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from lagbench.adapters.runs.run_folder import RunFolder
from lagbench.adapters.runs.run_manifest import write_manifest
from lagbench.catalog.catalog import Cell
from lagbench.catalog.conf import refuse
from lagbench.catalog.strict_yaml import read_bytes
from lagbench.core.compare.cell_identity import content_digest, files_by_content, policies_digest
from lagbench.core.measures.model import Fidelity
from lagbench.core.policy.policy import Policy
from lagbench.core.scenario.payload import MOST_FILE_BYTES
from lagbench.core.scenario.run_names import RunNames, new_run_id
from lagbench.core.scenario.stream_tail import RUN_TAIL_FIELD, tail_of
from lagbench.results.run_prediction import predict_run


def make_run_folder(
    cell: Cell,
    run_id: str | None,
    *,
    conf: dict[str, Any],
    fidelity: Fidelity,
    target: str,
    kubernetes: str | None,
) -> RunFolder:
    """Write the folder of a run that is about to start; of its second group, too.

    :param run_id: None: made from the scenario's name and the time.
    :param kubernetes: version of the cluster, by which the policies are predicted; None: unknown.
    :raises WrongInput: another run has the id, or a user's file has changed since its check.
    """
    run_id = run_id or new_run_id(
        cell.scenario.name, planned_at=datetime.now(UTC), unique_digits=secrets.token_hex(2)
    )
    payload, consumer = cell.scenario.payload, cell.scenario.consumer
    samples = payload and _checked(payload.file, payload.sha256, "payload.file")
    manifest = consumer.manifest and _checked(
        consumer.manifest, consumer.manifest_sha256, "consumer.manifest"
    )
    folder = RunFolder.create(RunNames(run_id).run_id)
    if folder.manifest.exists():
        refuse("run_id", run_id, "an id that no run has had yet")
    if samples:
        folder.write_text(folder.payload, samples)
    if manifest:
        folder.write_text(folder.own_deployment, manifest, mode=0o600)
    digests = {**cell_digests(cell), "target": content_digest(target)}

    def predicted_as(policy: Policy) -> Policy:
        return Policy.read(policy.manifest, where=policy.where, kubernetes=kubernetes)

    created_at = time.time_ns()
    tail = tail_of(cell.scenario, started_replicas=cell.policy.limits.started_replicas)
    folders = [folder] if cell.second is None else [folder, folder.make_second()]
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
        swaps = {number: predicted_as(one.policy) for number, one in group.swapped.items()}
        predict_run(place, group.scenario, predicted_as(group.policy), swaps)
    return folder


def cell_digests(cell: Cell) -> dict[str, str]:
    """Return the digests of what is rehearsed: scenario with seed and SLOs, and all policies.

    A setting that was changed for a run, or another file of the same name, makes others.
    """
    (_, policy), *others = cell.policies
    named = {"policy", "rate_scale"}  # the digest of the policies, and rates at this scale, count
    scenario = files_by_content(cell.scenario.model_dump(mode="json", exclude=named))
    return {
        "scenario": content_digest(scenario),
        "policy": policies_digest(policy.manifest, [other.manifest for _, other in others]),
    }


def _checked(file: str, sha256: str | None, field: str) -> str:
    """Return the content of a user's file, which the run folder gets."""
    content = read_bytes(Path(file), most=MOST_FILE_BYTES)
    if hashlib.sha256(content).hexdigest() != sha256:
        allowed = "the content that was checked a moment ago: do not change it meanwhile"
        refuse(field, "another content", allowed, where=file)
    return content.decode()
