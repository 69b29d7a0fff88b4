"""Find files of run folders by the path of a request, and none outside them."""

from __future__ import annotations

from pathlib import Path

from lagbench.adapters.runs.run_folder import runs_root


def file_of_run(run_id: str, path: str) -> Path | None:
    """Return the file ``path`` of a run folder; None if it is not a file or is outside it.

    Links are followed first: neither a link in a run folder nor one in place of it leads out.
    """
    try:
        root = runs_root().resolve()
        folder = (root / run_id).resolve()
        found = (folder / path).resolve()
    except (OSError, ValueError):  # too long, or a zero byte
        return None
    is_run_folder = folder.parent == root
    return found if is_run_folder and found.is_relative_to(folder) and found.is_file() else None
