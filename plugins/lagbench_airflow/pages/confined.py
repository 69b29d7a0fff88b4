"""Find files of run folders by the path of a request, and none outside them."""

from __future__ import annotations

import re
from pathlib import Path

from lagbench.adapters.runs.run_folder import SECOND_GROUP, runs_root

_KNOWN = re.compile(
    rf"({SECOND_GROUP}/)?("
    r"report\.html|junit\.xml|observed_load\.csv|payload\.txt|scenario\.yaml|policy(-\d{1,3})?\.(yaml|diff)"
    r"|(accounting|autoscaler|checks|comparison|conf|fence|hpa|manifest|measures|prediction|verdict"
    r"|what-if)\.json|(live|phases|records)\.jsonl|logs/[A-Za-z0-9][\w.-]{0,200}\.log)"
)
"""The files that a run writes for its readers, without manifests, which may have Secrets."""


def file_of_run(run_id: str, path: str) -> Path | None:
    """Return the file ``path`` of a run folder; None if it is not a file or is outside it.

    Links are followed first: neither a link in a run folder nor one in place of it leads out, or to
    a file of another name.
    """
    try:
        root = runs_root().resolve()
        folder = (root / run_id).resolve()
        found = (folder / path).resolve()
        is_there = folder.parent == root and found.is_file()
    except (OSError, RuntimeError, ValueError):  # too long, a loop of links, a zero byte
        return None
    if not is_there or not found.is_relative_to(folder):
        return None
    return found if _KNOWN.fullmatch(found.relative_to(folder).as_posix()) else None
