"""Register the command's verbs, and map errors to exit codes (see ``lagbench.errors.ExitCode``)."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Sequence
from itertools import pairwise
from typing import Annotated, Any

import typer
from rich.text import Text

from lagbench.cli import (
    bench_commands,
    cell_commands,
    compare_command,
    discover_commands,
    experiment_command,
    explain_command,
    history_command,
    observe_command,
    plan_command,
    policy_command,
    run_command,
    simulate_command,
)
from lagbench.cli.machine_faults import make_output_last, told
from lagbench.cli.terminal import Terminal
from lagbench.errors import ExitCode, LagbenchError, WrongInput
from lagbench.shown import printable

# typer ships its own click and exports only this one of its errors: its base covers them all.
_UsageError: Any = typer.BadParameter.__base__

app = typer.Typer(
    name="lagbench",
    help="Rehearse traffic spikes against a Kafka consumer group that an autoscaler drives.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(bench_commands.up)
app.command()(bench_commands.down)
app.command()(bench_commands.status)
app.command()(bench_commands.doctor)
app.command()(bench_commands.ui)
app.command()(run_command.run)
app.command()(cell_commands.watch)
app.command()(discover_commands.scenarios)
app.command()(discover_commands.policies)
app.command()(discover_commands.new)
app.command()(plan_command.plan)
app.command()(simulate_command.simulate)
app.command()(experiment_command.experiment)
app.add_typer(policy_command.policy)
app.command()(explain_command.explain)
app.command()(observe_command.observe)
app.command()(cell_commands.show)
app.command()(compare_command.compare)
app.command()(history_command.history)
app.command()(cell_commands.account)
app.command()(cell_commands.report)
app.command()(cell_commands.baseline)


def _version(wanted: bool) -> None:
    if wanted:
        from lagbench import __version__

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
        if argument.startswith("--") and sign and not value:
            field, allowed = name, "a value, or no such option"
        elif not argument and before.startswith("-"):
            field, allowed = before, "a value, or no such option"
        elif not argument:
            field, allowed = "argument", "a name, or no argument"
        else:
            continue
        raise WrongInput(where="command line", field=field, value="", allowed=allowed)


def main() -> None:
    """Run the command; each error gives one message and its exit code, which is never 1."""
    make_output_last()
    errors = Terminal(stderr=True)
    try:
        _require_values(sys.argv[1:])
        code = app(standalone_mode=False)
    except LagbenchError as error:
        errors.print(Text(type(error).__name__, "red"), str(error))
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
