"""Find the run folder that a Dag run made."""

from __future__ import annotations

import json

from lagbench.adapters.run_folder import RunFolder, runs_root

NEWEST_RUNS_SEARCHED = 1000


def folder_of_dag_run(dag_run: str) -> RunFolder | None:
    """Return the run folder that a Dag run made, None when it made none."""
    root = runs_root()
    if not root.is_dir():
        return None
    folders = sorted(root.iterdir(), key=lambda path: path.stat().st_mtime, reverse=True)
    for path in folders[:NEWEST_RUNS_SEARCHED]:
        folder = RunFolder(path)
        try:
            conf = json.loads(folder.conf.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue
        if isinstance(conf, dict) and conf.get("dag_run") == dag_run:
            return folder
    return None
