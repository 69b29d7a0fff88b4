"""``lagbench show | report | account | watch | baseline``: a run and its results."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Annotated

import typer

from lagbench.cli.options import JsonOption, slo_limits
from lagbench.cli.terminal import Terminal, print_json
from lagbench.errors import ExitCode, NotReady, WrongInput

if TYPE_CHECKING:
    from lagbench.adapters.runs.run_folder import RunFolder
    from lagbench.core.verdict.verdict import Verdict

RunArgument = Annotated[
    str, typer.Argument(help="A run id, the beginning of one, or latest.", metavar="RUN")
]
_KEPT = "FILE#RUN of a runs.jsonl.gz"
LOOK_SECONDS = 0.25


def show(
    run: Annotated[
        str | None,
        typer.Argument(help=f"A run, or {_KEPT}; without it, the list of runs.", metavar="RUN"),
    ] = None,
    *,
    as_json: JsonOption = False,
) -> int:
    """Show a run's verdict, which is also the exit code; without RUN list all runs."""
    from lagbench.adapters.runs.experiment_folder import opened
    from lagbench.adapters.runs.run_folder import list_runs
    from lagbench.cli.run_document import run_document, runs_document
    from lagbench.cli.verdict_table import print_runs, print_verdict

    console = Terminal()
    if run is None and as_json:
        print_json(runs_document(list_runs()))
        return ExitCode.PASS
    if run is None:
        print_runs(console, list_runs())
        return ExitCode.PASS
    with opened(run) as folder:
        if not as_json:
            return print_verdict(console, folder)
        code, document = run_document(folder)
    print_json(document)
    return code


def report(
    run: Annotated[
        str,
        typer.Argument(help=f"A run id, the beginning of one, or latest; {_KEPT}.", metavar="RUN"),
    ] = "latest",
    slo: Annotated[
        list[str] | None,
        typer.Option(
            "--slo", metavar="NAME=LIMIT", help="Judge by another limit, into what-if.json."
        ),
    ] = None,
) -> int:
    """Rebuild measures, verdict and report of a run from its folder alone.

    With --slo the run's verdict stays: what it would be is written beside it. Of an observation
    that was killed, the readings until then are judged. Of a kept run, which has no tables, the
    report shows the kept measures and verdict.
    """
    from lagbench.adapters.runs.experiment_folder import KEPT_FOLDER, is_kept, opened
    from lagbench.adapters.runs.run_folder import runs_root
    from lagbench.core.verdict.verdict import exit_code
    from lagbench.report.outcome_files import report_again, report_kept
    from lagbench.results.measure_run import what_if
    from lagbench.results.observed_run import complete_run, is_unfinished

    say = Terminal().say
    with opened(run, kept_in=runs_root() / KEPT_FOLDER) as folder:
        if slo:
            limits = slo_limits(slo, of_run=True)
            verdict = what_if(folder, limits)
            for one in (one for one in verdict.slos if one.name in limits):
                say(f"{one.status}: {one.title} {one.value_text}, {one.limit_text}; {one.reason}")
            say(f"the whole run, what if {', '.join(slo)}: {_in_short(verdict)}")
            say(f"{folder.path}/what-if.json; the run's verdict stays")
            return exit_code(verdict)
        if is_kept(run):
            verdict = report_kept(folder)
        else:
            _require_end(folder)
            if is_unfinished(folder):
                complete_run(folder)
            verdict = report_again(folder)
    say(_in_short(verdict))
    say(f"report: {folder.report}")
    return ExitCode.PASS


def _in_short(verdict: Verdict) -> str:
    warnings = (f"warning: {text}" for text in verdict.warnings)
    texts = (*verdict.judged_without, *verdict.deciding[:1], *warnings)
    return f"{verdict.label}: {'; '.join(texts)}"


def _require_end(folder: RunFolder) -> None:
    """Reject a run in progress: its page would be that of a stopped one."""
    from lagbench.cli.watched_run import is_in_progress
    from lagbench.programs.live.run_follower import is_followed
    from lagbench.results.observed_run import RECORDS_FILE

    records, told = folder.path / RECORDS_FILE, f"run {folder.reference} is still in progress"
    if is_followed(records):
        raise NotReady(f"{told}: its observation continues")
    if not records.exists() and not folder.has_landed() and is_in_progress(folder):
        raise NotReady(f"{told}: lagbench watch {folder.reference} shows it")


def account(run: RunArgument = "latest") -> int:
    """Account for a run again, from its tables or from the copies of its topics."""
    from lagbench.adapters.runs.experiment_folder import find
    from lagbench.embedded.local_accounting import account_here

    console, folder = Terminal(), find(run)
    for group in folder.groups:
        account_here(group, console.say)
    console.say(f"now: lagbench report {folder.reference}")
    return ExitCode.PASS


def baseline(run: RunArgument) -> int:
    """Make a passed rehearsal of daily_spike_rehearsal the baseline of its cell."""
    from lagbench.adapters.runs.experiment_folder import find
    from lagbench.results.gate import accept

    accepted, before = accept(find(run), now=time.time_ns())
    console = Terminal()
    console.say(f"baseline: {accepted.run_id}")
    if before is not None and before.run_id != accepted.run_id:
        console.say(f"before:   {before.run_id}")
    return ExitCode.PASS


def watch(run: RunArgument = "latest") -> int:
    """Watch a run in progress; Ctrl-C leaves it alone. The exit code is that of its verdict."""
    from lagbench.adapters.runs.experiment_folder import find
    from lagbench.cli.verdict_table import print_verdict
    from lagbench.cli.watched_run import ProgressDisplay, WatchedRun, is_in_progress
    from lagbench.core.measures.evidence.observed_group import observation_of

    console, folder = Terminal(), find(run)
    is_observed = folder.manifest.exists() and observation_of(folder.read_json(folder.manifest))
    if is_observed or not is_in_progress(folder):
        wanted = "a rehearsal; this is an observation" if is_observed else "a run in progress"
        allowed = f"{wanted}: lagbench show {folder.reference} shows this one"
        raise WrongInput(where="run", field="run", value=folder.reference, allowed=allowed)
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
