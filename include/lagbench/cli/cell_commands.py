"""``lagbench show | account | report``: the results of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from lagbench.cli.terminal import Terminal
from lagbench.errors import ExitCode, NotReady, WrongInput

if TYPE_CHECKING:
    from lagbench.adapters.runs.run_folder import RunFolder

RunArgument = Annotated[
    str, typer.Argument(help="A run id, the beginning of one, or latest.", metavar="RUN")
]
AnyRunArgument = Annotated[
    str,
    typer.Argument(
        help="A run id, the beginning of one, or latest; FILE#RUN of a runs.jsonl.gz.",
        metavar="RUN",
    ),
]


def show(
    run: Annotated[
        str | None,
        typer.Argument(help="A run, or FILE#RUN of a runs.jsonl.gz; without it, the list of runs."),
    ] = None,
) -> int:
    """Show a run's verdict, which is also the exit code; without RUN list all runs."""
    from lagbench.adapters.runs.named_run import opened
    from lagbench.adapters.runs.run_folder import list_runs
    from lagbench.cli.run_list import print_runs
    from lagbench.cli.verdict_table import print_verdict

    console = Terminal()
    if run is None:
        print_runs(console, list_runs())
        return ExitCode.PASS
    with opened(run) as folder:
        return print_verdict(console, folder)


def report(
    run: AnyRunArgument = "latest",
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", help="Judge by another limit (slos.NAME=VALUE), into what-if.json."),
    ] = None,
) -> int:
    """Rebuild measures, verdict and report of a run from its folder alone.

    With --set the run's verdict stays: what it would be is written beside it. Of an observation
    that was killed, the readings until then are judged. Of a kept run, which has no tables, the
    report shows the kept measures and verdict.
    """
    from lagbench.adapters.runs.named_run import KEPT_FOLDER, is_kept, opened
    from lagbench.adapters.runs.run_folder import runs_root
    from lagbench.report.again import report_again, report_kept
    from lagbench.report.stopped import write_stopped
    from lagbench.results.observed_run import complete_run, is_unfinished

    console = Terminal()
    with opened(run, kept_in=runs_root() / KEPT_FOLDER) as folder:
        if settings:
            return _what_if(console, folder, settings)
        if is_kept(run):
            verdict = report_kept(folder)
        else:
            _require_end(folder)
            if is_unfinished(folder):
                complete_run(folder)
            elif not folder.accounting.exists() and not folder.has_landed():
                told = f"run {folder.reference} {write_stopped(folder).text}"
                raise NotReady(f"{told}. {folder.report} shows how far it came")
            verdict = report_again(folder)
    first = "; ".join((*verdict.judged_without, *verdict.deciding[:1]))
    console.print(f"{verdict.status}: {first}", highlight=False, soft_wrap=True)
    console.print(f"report: {folder.report}", highlight=False, soft_wrap=True)
    return ExitCode.PASS


def _require_end(folder: RunFolder) -> None:
    """Reject a run in progress: its page would be that of a stopped one.

    :raises NotReady: a rehearsal or an observation still writes the folder.
    """
    from lagbench.cli.watched_run import is_in_progress
    from lagbench.programs.live.live_file import is_followed
    from lagbench.results.observed_run import RECORDS_FILE

    records = folder.path / RECORDS_FILE
    if is_followed(records):
        raise NotReady(f"run {folder.reference} is still in progress: its observation continues")
    if not records.exists() and not folder.has_landed() and is_in_progress(folder):
        told = f"run {folder.reference} is still in progress"
        raise NotReady(f"{told}: lagbench watch {folder.reference} shows it")


def _what_if(console: Console, folder: RunFolder, settings: list[str]) -> int:
    import yaml

    from lagbench.core.verdict import exit_code
    from lagbench.results.measure import what_if

    limits = {}
    for setting in settings:
        name, _, value = setting.partition("=")
        if not name.startswith("slos.") or not value:
            allowed = "slos.NAME=VALUE: a finished run can be judged by other limits only"
            raise WrongInput(where="lagbench report", field="--set", value=setting, allowed=allowed)
        limits[name.removeprefix("slos.")] = yaml.safe_load(value)
    verdict = what_if(folder, limits)
    first = "; ".join((*verdict.judged_without, *verdict.deciding[:1]))
    console.print(f"what if {', '.join(settings)}: {verdict.status}: {first}", highlight=False)
    console.print(f"{folder.path}/what-if.json; the run's verdict stays", highlight=False)
    return exit_code(verdict)


def account(run: RunArgument = "latest") -> int:
    """Account for a run again, from its tables or from the copies of its topics."""
    from lagbench.adapters.runs.named_run import find
    from lagbench.embedded.local_accounting import account_here

    console, folder = Terminal(), find(run)
    for group in folder.groups:
        account_here(group, lambda line: console.print(line, highlight=False, soft_wrap=True))
    console.print(f"now: lagbench report {folder.reference}", highlight=False, soft_wrap=True)
    return ExitCode.PASS
