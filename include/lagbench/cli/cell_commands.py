"""``lagbench show | report | account | watch | baseline``: a run and its results."""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lagbench.cli.terminal import Terminal
from lagbench.errors import ExitCode, NotReady, WrongInput

if TYPE_CHECKING:
    from lagbench.adapters.runs.run_folder import RunFolder
    from lagbench.core.simulation.simulated_world import SimulatedEnvironment
    from lagbench.core.verdict.verdict import Verdict

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

LOOK_SECONDS = 0.25


def show(
    run: Annotated[
        str | None,
        typer.Argument(help="A run, or FILE#RUN of a runs.jsonl.gz; without it, the list of runs."),
    ] = None,
) -> int:
    """Show a run's verdict, which is also the exit code; without RUN list all runs."""
    from lagbench.adapters.runs.experiment_folder import opened
    from lagbench.adapters.runs.run_folder import list_runs
    from lagbench.cli.verdict_table import print_runs, print_verdict

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
    from lagbench.adapters.runs.experiment_folder import KEPT_FOLDER, is_kept, opened
    from lagbench.adapters.runs.run_folder import runs_root
    from lagbench.report.outcome_files import report_again, report_kept, write_stopped
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
    console.say(_in_short(verdict))
    console.say(f"report: {folder.report}")
    return ExitCode.PASS


def _in_short(verdict: Verdict) -> str:
    return f"{verdict.status}: {'; '.join((*verdict.judged_without, *verdict.deciding[:1]))}"


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


def _what_if(console: Terminal, folder: RunFolder, settings: list[str]) -> int:
    from lagbench.core.verdict.verdict import exit_code
    from lagbench.results.measure_run import what_if

    verdict = what_if(folder, slo_limits(settings))
    console.say(f"what if {', '.join(settings)}: {_in_short(verdict)}")
    console.say(f"{folder.path}/what-if.json; the run's verdict stays")
    return exit_code(verdict)


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
    import time

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


ScenarioArgument = Annotated[
    str, typer.Argument(help="A name from the catalog, or a YAML file.", metavar="SCENARIO")
]

PolicyOption = Annotated[str | None, typer.Option(help="Policy instead of the scenario's.")]

SeedOption = Annotated[int | None, typer.Option(help="Seed instead of the scenario's.")]

SettingsOption = Annotated[
    list[str] | None, typer.Option("--set", help="key=value, e.g. profile.spike_mult=5")
]

EnvFileOption = Annotated[
    Path | None,
    typer.Option(
        help="NAME=value lines: what your consumer's Secrets have (consumer.kind own, embedded)."
    ),
]

StartOption = Annotated[
    str | None,
    typer.Option(
        metavar="INSTANT",
        help="The stream's start, for cron triggers, e.g. 2026-11-23T08:59:30Z; default: "
        "2026-01-05T00:00:00Z, a Monday.",
    ),
]

TargetOption = Annotated[
    str, typer.Option(help="embedded, kind (of make kind), or context:NAME of a kubeconfig.")
]

TargetSettingsOption = Annotated[
    Path | None,
    typer.Option(help="The cluster's settings; default k8s/overlays/context/settings/settings.env"),
]


def new_id(scenario: str) -> str:
    """Return an id for a new run of a scenario."""
    import secrets
    from datetime import UTC, datetime

    from lagbench.core.scenario.run_names import new_run_id

    unique = secrets.token_hex(2)
    return new_run_id(scenario, planned_at=datetime.now(UTC), unique_digits=unique)


def finite(value: float | None) -> float | None:
    """Return an option's number; reject ``inf`` and ``nan``, which a lower bound lets through."""
    if value is not None and not math.isfinite(value):
        raise typer.BadParameter(f"{value} is not a finite number.")
    return value


def environment_at(start: str | None) -> SimulatedEnvironment:
    """Return the simulator's environment for a stream that starts at ``--start``."""
    from lagbench.core.kubernetes_values import NS_PER_SECOND, parse_instant_ns
    from lagbench.core.simulation.simulated_world import SimulatedEnvironment
    from lagbench.errors import WrongInput

    if start is None:
        return SimulatedEnvironment()
    try:
        at_ns = parse_instant_ns(start)
    except (TypeError, ValueError) as error:
        allowed = "an instant with its time zone, e.g. 2026-11-23T08:59:30Z or …T09:59:30+01:00"
        raise WrongInput(
            where="command line", field="--start", value=start, allowed=allowed
        ) from error
    return SimulatedEnvironment(starts_at_seconds=at_ns // NS_PER_SECOND)


def slo_limits(settings: Sequence[str]) -> dict[str, Any]:
    """Return the limits that were given by ``--set slos.NAME=VALUE``.

    :raises WrongInput: there is no such SLO, or the value is none for it.
    """
    from pydantic import ValidationError

    from lagbench.catalog.catalog import parse_settings
    from lagbench.catalog.strict_yaml import parse_yaml
    from lagbench.core.scenario.scenario import Slos
    from lagbench.errors import WrongInput

    where, given = "command line", dict[str, Any]()
    for key, text in parse_settings(settings, where=where, field="--set").items():
        part, _, name = key.partition(".")
        if part != "slos" or name not in Slos.model_fields:
            allowed = ", ".join(f"slos.{known}" for known in Slos.model_fields)
            raise WrongInput(where=where, field="--set", value=key, allowed=allowed)
        given[name] = parse_yaml(text, where=f"--set {key}")
    try:
        Slos.model_validate(given)
    except ValidationError as error:
        first = error.errors()[0]
        field = f"--set slos.{first['loc'][0]}"
        value, allowed = first["input"], first["msg"]
        raise WrongInput(where=where, field=field, value=value, allowed=allowed) from error
    return given
