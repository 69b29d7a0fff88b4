"""The manifest of a run: which versions, which code and which machine made its numbers.

No host name, user or path outside the project is written: a run folder is made to be passed on.
"""

from __future__ import annotations

import hashlib
import platform
import subprocess
from importlib import metadata
from pathlib import Path
from typing import Any

import confluent_kafka
import psutil

from lagbench.adapters.process.processor_speed import this_processor
from lagbench.adapters.runs.experiment_folder import ExperimentFolder
from lagbench.adapters.runs.run_folder import RunFolder, runs_root
from lagbench.core.measures.model import Fidelity
from lagbench.project import PROJECT_ROOT

VERSIONED_PACKAGES = ("lagbench", "apache-airflow", "pyspark", "confluent-kafka", "kubernetes")
LOCK = "requirements.txt"
MOST_CHANGED = 20
"""So many changed files are named, and all are counted."""
FORMAT_FIELD = "folder_format"
CURRENT_FORMAT = 2
"""Folders of another format are not read: a new name for a field is a new format."""


def write_manifest(
    folder: RunFolder,
    *,
    scenario: str,
    policy: str,
    seed: int,
    fidelity: Fidelity,
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
        "lock": lock_digest(PROJECT_ROOT),
        "git": git_state(PROJECT_ROOT),
        "machine": machine(),
    }
    folder.write_text(folder.scenario, scenario_text)
    folder.write_text(folder.policy, policy_text)
    folder.write_json(folder.conf, conf)
    folder.write_json(folder.manifest, manifest)
    return manifest


def add_versions(folder: RunFolder, versions: dict[str, str]) -> None:
    """Add to the manifest what a later task of the run has found out."""
    known = folder.read_json(folder.manifest) if folder.manifest.exists() else {}
    folder.update_manifest(versions={**(known.get("versions") or {}), **versions})


def installed_versions() -> dict[str, str]:
    """Return the versions of Python and of the packages whose behaviour shapes the numbers.

    ``librdkafka`` is the C library inside the wheel confluent-kafka, which has its own version.
    """
    versions = {"python": platform.python_version(), "librdkafka": confluent_kafka.libversion()[0]}
    for package in VERSIONED_PACKAGES:
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue  # absent stays absent; a made-up version would be worse
    return versions


def lock_digest(project: Path) -> dict[str, str | None]:
    """Return the name and the SHA-256 of the file that pins every package; None without it."""
    try:
        digest = hashlib.sha256((project / LOCK).read_bytes()).hexdigest()
    except FileNotFoundError:
        digest = None
    return {"file": LOCK, "sha256": digest}


def git_state(project: Path) -> dict[str, Any]:
    """Return commit, dirty flag and changed files of ``project``; None outside a git work tree.

    Files that runs and experiments write below ``project`` do not count.
    """
    commit = _git(project, "rev-parse", "HEAD")
    top = _git(project, "rev-parse", "--show-toplevel")
    listing = ("--porcelain", "-z", "--untracked-files=all", "--no-renames")
    status = _git(project, "status", *listing, "--", ".")
    if top is None or status is None:
        return {"commit": commit, "is_dirty": None, "changed": None, "changed_count": None}
    home = project.resolve()
    paths = (Path(top) / entry[3:] for entry in status.split("\0") if entry)  # behind its marks
    changed = [str(path.relative_to(home)) for path in paths if not _is_result(path, home)]
    return {
        "commit": commit,
        "is_dirty": bool(changed),
        "changed": changed[:MOST_CHANGED],
        "changed_count": len(changed),
    }


def _is_result(path: Path, home: Path) -> bool:
    """Return whether a file lies in the runs folder, or in that of an experiment's execution."""
    if path.is_relative_to(runs_root().resolve()):
        return True
    inside = (folder for folder in path.parents if folder != home and folder.is_relative_to(home))
    return any(ExperimentFolder(folder).is_started for folder in inside)


def machine() -> dict[str, Any]:
    """Return the machine's processor, usable cores, their speed, memory (bytes) and kernel."""
    here = this_processor()
    return {
        "cores": here.cores,
        "speed": round(here.speed, 2),  # 1.0: the machine that adapters/processor.py names
        "memory_bytes": psutil.virtual_memory().total,
        "processor": _processor(),
        "system": platform.system(),
        "kernel": platform.release(),
        "architecture": platform.machine(),
    }


def _processor() -> str | None:
    """Return the processor's model as Linux names it; None where it names none."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    models = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(models, None)


def _git(project: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(project), *arguments],
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=10,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.rstrip()  # the first mark of a status is a blank
