"""Delete run folders that nobody will look at again."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

from lagbench.adapters.run_folder import list_runs, runs_root

DAY_NS = 86_400 * 1_000_000_000


def tidy_run_folders(
    *, keep_days: int, including_failed: bool, root: Path | None = None, now: int | None = None
) -> list[str]:
    """Delete runs older than ``keep_days`` days and return their ids.

    Kept: every run whose verdict is not pass (unless ``including_failed``), the newest passing run
    of each scenario and policy (the next rehearsal is compared with it), and any folder without a
    date in its manifest, for it may be none of ours.
    """
    root = root or runs_root()
    oldest = (time.time_ns() if now is None else now) - keep_days * DAY_NS
    runs = list_runs(root)
    references = {(r.scenario, r.policy, r.fidelity): r.run_id for r in runs if r.verdict == "pass"}
    deleted = []
    for run in runs:
        is_old = run.created_at is not None and run.created_at < oldest
        is_wanted = run.verdict != "pass" and not including_failed
        if is_old and not is_wanted and run.run_id not in references.values():
            shutil.rmtree(root / run.run_id)
            deleted.append(run.run_id)
    return deleted
