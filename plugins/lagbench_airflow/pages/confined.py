"""Find files of run folders by the path of a request, and none outside them."""

from __future__ import annotations

from pathlib import Path

from lagbench.adapters.runs.run_folder import RunFolder, runs_root


def file_of_run(run_id: str, path: str) -> Path | None:
    """Return the file ``path`` of a run folder; None if it is not a file or is outside it.

    Links are followed first: neither a link in a run folder nor one in place of it leads out. The
    manifest that a user has given is not served: the values of its Secrets are the user's alone.
    """
    try:
        root = runs_root().resolve()
        folder = (root / run_id).resolve()
        found = (folder / path).resolve()
    except (OSError, ValueError):  # too long, or a zero byte
        return None
    is_in_run_folder = folder.parent == root and found.is_relative_to(folder)
    is_private = found.name == RunFolder(folder).own_deployment.name
    return found if is_in_run_folder and not is_private and found.is_file() else None
