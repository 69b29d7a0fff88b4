"""``lagbench watch``: attach to a run in progress, until its end."""

from __future__ import annotations

import threading

from lagbench.cli.cell_commands import RunArgument
from lagbench.cli.progress import ProgressDisplay
from lagbench.cli.terminal import Terminal
from lagbench.cli.watched_run import WatchedRun, is_in_progress
from lagbench.errors import NotReady, WrongInput

LOOK_SECONDS = 0.25


def watch(run: RunArgument = "latest") -> int:
    """Watch a run in progress; Ctrl-C leaves it alone. The exit code is that of its verdict."""
    from lagbench.adapters.runs.named_run import find
    from lagbench.cli.verdict_table import print_verdict
    from lagbench.core.measures.evidence import observation_of

    console, folder = Terminal(), find(run)
    if folder.manifest.exists() and observation_of(folder.read_json(folder.manifest)) is not None:
        raise WrongInput(
            where="run",
            field="run",
            value=folder.reference,
            allowed=f"a rehearsal; this is an observation: lagbench show {folder.reference}",
        )
    if not is_in_progress(folder):
        raise WrongInput(
            where="run",
            field="run",
            value=folder.reference,
            allowed=f"a run in progress; this one has ended: lagbench show {folder.reference}",
        )
    watched, pause = WatchedRun(folder), threading.Event()
    with ProgressDisplay(console, folder.reference) as display:
        while not watched.view.is_over and is_in_progress(folder):
            watched.advance()
            display.show(watched.view)
            pause.wait(LOOK_SECONDS)
    watched.advance()
    if not folder.verdict.is_file():
        seen = "\n".join(watched.view.failures) or f"its last phase was {watched.view.phase}"
        raise NotReady(f"run {folder.reference} ended without a verdict: {seen}")
    return print_verdict(console, folder)
