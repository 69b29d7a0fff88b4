"""Register the command's verbs, and map errors to exit codes (see ``lagbench.errors.ExitCode``)."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Sequence
from itertools import pairwise
from typing import Annotated, Any

import typer
from rich.text import Text

from lagbench import __version__
from lagbench.cli.advise_command import advise
from lagbench.cli.bench_commands import doctor, down, status, ui, up
from lagbench.cli.calibrate_command import calibrate
from lagbench.cli.cell_commands import account, baseline, report, show, watch
from lagbench.cli.compare_command import compare
from lagbench.cli.discover_commands import new, policies, scenarios
from lagbench.cli.experiment_command import experiment
from lagbench.cli.explain_command import explain
from lagbench.cli.history_command import history
from lagbench.cli.machine_faults import make_output_last, told
from lagbench.cli.observe_command import observe
from lagbench.cli.plan_command import plan
from lagbench.cli.policy_command import policy
from lagbench.cli.run_command import run
from lagbench.cli.simulate_command import simulate
from lagbench.cli.terminal import Terminal
from lagbench.cli.trace_commands import trace
from lagbench.errors import ExitCode, LagbenchError, WrongInput
from lagbench.printed_commands import CALLED_AS, called_as, command_name, wrapped
from pod_program.shown import printable

# typer ships its own click and exports only this one of its errors: its base covers them all.
_UsageError: Any = typer.BadParameter.__base__

app = typer.Typer(
    name="lagbench",
    help="Rehearse traffic spikes against a Kafka consumer group that an autoscaler drives.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
_BEFORE: tuple[Any, ...] = (
    *(up, down, status, doctor, ui, run, watch),
    *(scenarios, policies, new, plan, simulate, advise, experiment),
)
_AFTER: tuple[Any, ...] = (
    *(explain, observe, calibrate, show, compare, history),
    *(account, report, baseline),
)
for verb in _BEFORE:
    app.command()(verb)
app.add_typer(policy)
app.add_typer(trace)
for verb in _AFTER:
    app.command()(verb)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Hold the options that stand before the verb."""


def _require_values(arguments: Sequence[str]) -> None:
    """Reject an empty argument: it comes from an empty variable of a shell."""
    for before, argument in pairwise(["", *arguments]):
        name, sign, value = argument.partition("=")
        field = name if argument.startswith("--") and sign and not value else None
        if not argument:
            field = before if before.startswith("-") else "argument"
        if field is not None:
            allowed = (
                "a name, or no argument" if field == "argument" else "a value, or no such option"
            )
            raise WrongInput(where="command line", field=field, value="", allowed=allowed)


def main() -> None:
    """Run the command; each error gives one message and its exit code, which is never 1."""
    make_output_last()
    os.environ[CALLED_AS] = called_as(sys.argv[0])
    errors = Terminal(stderr=True)
    try:
        _require_values(sys.argv[1:])
        code = app(standalone_mode=False, prog_name=command_name())
    except LagbenchError as error:
        kind = type(error).__name__
        first, *others = wrapped(str(error), errors.width, f"{kind} ")
        errors.say(Text.assemble((kind, "red"), first.removeprefix(kind)))
        for line in others:
            errors.say(line)
        sys.exit(error.exit_code)
    except _UsageError as error:
        error.message = printable(error.message)
        error.show()
        sys.exit(ExitCode.WRONG_INPUT)
    except (KeyboardInterrupt, typer.Abort):
        errors.print("stopped")
        sys.exit(130)
    except OSError as error:
        code, text = told(error)
        errors.say(text)
        sys.exit(code)
    except Exception:
        errors.say(traceback.format_exc())
        errors.print("this is a fault in lagbench; please report it with the lines above")
        sys.exit(ExitCode.NOT_READY)
    sys.exit(code if isinstance(code, int) else ExitCode.PASS)
