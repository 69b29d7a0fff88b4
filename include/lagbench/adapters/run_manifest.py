"""The manifest of a run: which versions, which code and which machine made its numbers.

No host name, user or path is written: a run folder is made to be passed on.
"""

from __future__ import annotations

import os
import platform
import subprocess
from importlib import metadata
from pathlib import Path
from typing import Any, Literal

import psutil

from lagbench.adapters.run_folder import RunFolder
from lagbench.core.evidence_format import CURRENT_FORMAT, FORMAT_FIELD
from lagbench.project import PROJECT_ROOT

VERSIONED_PACKAGES = ("lagbench", "apache-airflow", "pyspark", "confluent-kafka", "kubernetes")


def write_manifest(
    folder: RunFolder,
    *,
    scenario: str,
    policy: str,
    seed: int,
    fidelity: Literal["simulated", "processes", "kubernetes"],
    conf: dict[str, Any],
    scenario_text: str,
    policy_text: str,
    created_at: int,
    versions: dict[str, str] | None = None,
    cell: dict[str, str] | None = None,
) -> dict[str, Any]:
    """Write manifest.json, scenario.yaml, policy.yaml and conf.json; returns the manifest.

    ``versions`` adds what only the caller knows, e.g. ``{"kafka-broker": "4.3.1"}``;
    ``cell`` holds the digests of policy and target by which runs of one cell are found.
    """
    manifest: dict[str, Any] = {
        "run_id": folder.run_id,
        FORMAT_FIELD: CURRENT_FORMAT,
        "created_at": created_at,
        "scenario": scenario,
        "policy": policy,
        "seed": seed,
        "fidelity": fidelity,
        "conf": conf,
        **({} if cell is None else {"cell": cell}),
        "versions": {**installed_versions(), **(versions or {})},
        "git": git_state(PROJECT_ROOT),
        "machine": machine(),
    }
    folder.write_text(folder.scenario, scenario_text)
    folder.write_text(folder.policy, policy_text)
    folder.write_json(folder.conf, conf)
    folder.write_json(folder.manifest, manifest)
    return manifest


def installed_versions() -> dict[str, str]:
    """Return the versions of Python and of the packages whose behaviour shapes the numbers."""
    versions = {"python": platform.python_version()}
    for package in VERSIONED_PACKAGES:
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue  # absent stays absent; a made-up version would be worse
    return versions


def git_state(project: Path) -> dict[str, Any]:
    """Return commit and dirty flag of ``project``; both None outside a git work tree."""
    commit = _git(project, "rev-parse", "HEAD")
    changes = _git(project, "status", "--porcelain")
    return {"commit": commit, "is_dirty": None if changes is None else bool(changes)}


def machine() -> dict[str, Any]:
    """Return the size of the machine: usable cores, memory, kernel family."""
    return {
        "cores": len(os.sched_getaffinity(0)),
        "memory_bytes": psutil.virtual_memory().total,
        "system": platform.system(),
        "architecture": platform.machine(),
    }


def _git(project: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(project), *arguments],
            capture_output=True,
            text=True,
            timeout=10,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
