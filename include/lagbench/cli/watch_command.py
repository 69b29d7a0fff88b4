"""``lagbench watch``: attach to a run in progress, until its end."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from lagbench.cli.cell_commands import RunArgument
from lagbench.cli.progress import ProgressDisplay
from lagbench.cli.terminal import Terminal
from lagbench.cli.watched_run import WatchedRun
from lagbench.errors import NotReady, WrongInput

if TYPE_CHECKING:
    from lagbench.adapters.runs.run_folder import RunFolder

LOOK_SECONDS = 0.25
YOUNG_SECONDS = 600.0
"""A run without a follower and younger than that may still bring its bench up."""


def watch(run: RunArgument = "latest") -> int:
    """Watch a run in progress; Ctrl-C leaves it alone. The exit code is that of its verdict."""
    from lagbench.adapters.runs.named_run import find
    from lagbench.cli.verdict_table import print_verdict
    from lagbench.core.measures.evidence import observation_of
    from lagbench.programs.live.live_file import is_followed

    console, folder = Terminal(), find(run)
    if folder.manifest.exists() and observation_of(folder.read_json(folder.manifest)) is not None:
        raise WrongInput(
            where="run",
            field="run",
            value=folder.reference,
            allowed=f"a rehearsal; this is an observation: lagbench show {folder.reference}",
        )
    if not is_followed(folder.live) and not _may_come(folder):
        raise WrongInput(
            where="run",
            field="run",
            value=folder.reference,
            allowed=f"a run in progress; this one has ended: lagbench show {folder.reference}",
        )
    watched, pause = WatchedRun(folder), threading.Event()
    with ProgressDisplay(console, folder.reference) as display:
        while not watched.view.is_over and (is_followed(folder.live) or _may_come(folder)):
            watched.advance()
            display.show(watched.view)
            pause.wait(LOOK_SECONDS)
    watched.advance()
    if not folder.verdict.is_file():
        seen = "\n".join(watched.view.failures) or f"its last phase was {watched.view.phase}"
        raise NotReady(f"run {folder.reference} ended without a verdict: {seen}")
    return print_verdict(console, folder)


def _may_come(folder: RunFolder) -> bool:
    """Return whether the run may yet get its follower: it is young, and nothing has ended it."""
    if folder.live.exists() or folder.verdict.exists():
        return False
    created_at = folder.summary().created_at
    if created_at is None or time.time() - created_at / 1e9 > YOUNG_SECONDS:
        return False
    from lagbench.programs.live.phase_log import LAST_PHASE

    watched = WatchedRun(folder)
    watched.advance()
    return not watched.view.failures and watched.view.phase != LAST_PHASE
