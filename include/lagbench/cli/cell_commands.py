"""``lagbench show | account | report``: the results of a run."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console

from lagbench.errors import ExitCode

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

    console = Console()
    if run is None:
        print_runs(console, list_runs())
        return ExitCode.PASS
    with opened(run) as folder:
        return print_verdict(console, folder)


def report(run: AnyRunArgument = "latest") -> int:
    """Rebuild measures, verdict and report of a run from its folder alone.

    Of an observation that was killed, the readings until then are judged. Of a kept run, which has
    no tables, the report shows the kept measures and verdict.
    """
    from lagbench.adapters.runs.named_run import KEPT_FOLDER, is_kept, opened
    from lagbench.adapters.runs.run_folder import runs_root
    from lagbench.report.again import report_again, report_kept
    from lagbench.results.observed_run import complete_run, is_unfinished

    console = Console()
    with opened(run, kept_in=runs_root() / KEPT_FOLDER) as folder:
        if is_kept(run):
            verdict = report_kept(folder)
        else:
            if is_unfinished(folder):
                complete_run(folder)
            verdict = report_again(folder)
    first = "; ".join((*verdict.judged_without, *verdict.deciding[:1]))
    console.print(f"{verdict.status}: {first}", highlight=False, soft_wrap=True)
    console.print(f"report: {folder.report}", highlight=False, soft_wrap=True)
    return ExitCode.PASS


def account(run: RunArgument = "latest") -> int:
    """Account for a run again, from its tables or from the copies of its topics."""
    from lagbench.adapters.runs.named_run import find
    from lagbench.embedded.local_accounting import account_here

    console, folder = Console(), find(run)
    for group in folder.groups:
        account_here(group, lambda line: console.print(line, highlight=False, soft_wrap=True))
    console.print(f"now: lagbench report {folder.reference}", highlight=False, soft_wrap=True)
    return ExitCode.PASS
