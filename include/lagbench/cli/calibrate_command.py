"""``lagbench calibrate``: what a simulation needs of real pods, from a run or an observation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from lagbench.cli.options import JsonOption
from lagbench.cli.terminal import Terminal, print_json
from lagbench.errors import ExitCode, NotReady, WrongInput

if TYPE_CHECKING:
    from lagbench.core.measures.calibration import Calibration


def calibrate(
    run: Annotated[
        str, typer.Argument(help="A run or an observation: its id, or latest.", metavar="RUN")
    ] = "latest",
    *,
    as_json: JsonOption = False,
) -> int:
    """Estimate process_ms, pod start and join of a run's pods, as settings for a scenario.

    Exit code 4 if there is not enough data for any of them.
    """
    import yaml

    from lagbench.adapters.runs.experiment_folder import opened
    from lagbench.core.measures.calibration import calibration
    from lagbench.results.measure_run import as_lagbench_wrote
    from lagbench.results.read_run import read_evidence

    with opened(run) as folder:
        try:
            with as_lagbench_wrote(folder):
                found = calibration(read_evidence(folder))
        except NotReady as lack:
            allowed = "a run that has all its files"
            raise WrongInput(
                where="calibrate", field="RUN", value=run, allowed=allowed, sentence=f"{lack}"
            ) from lack
    settings = _settings(found)
    code = ExitCode.PASS if settings else ExitCode.UNDETERMINED
    if as_json:
        print_json({**found.model_dump(), "settings": settings})
        return code
    console, rows = Terminal(), list[tuple[str, ...]]()
    for title, one, unit in (
        (f"process_ms at concurrency {found.concurrency}", found.process_ms, "ms"),
        ("pod start: creation to Ready", found.start_seconds, "s"),
        ("join: Ready to first work", found.join_seconds, "s"),
    ):
        spread = "–" if one.low is None else f"{one.low:.3g} to {one.high:.3g} {unit}"
        middle = "–" if one.median is None else f"{one.median:.4g} {unit}"
        rows.append((title, middle, spread, str(one.n), one.note))
    headings = ("", "median", "range", "n", "from")
    console.table(headings, rows, right=("median", "n"), folded=("from",))
    if settings:
        pairs = " ".join(f"--set consumer.{name}={value:g}" for name, value in settings.items())
        console.say(pairs)
        console.say(yaml.safe_dump({"consumer": settings}, sort_keys=False).rstrip())
    return code


def _settings(found: Calibration) -> dict[str, float]:
    """Return the fields of ``consumer`` that are known."""
    settings = dict[str, float]()
    if found.process_ms.median is not None:
        process_ms = float(f"{found.process_ms.median:.4g}")
        settings |= {"process_ms": process_ms, "concurrency": found.concurrency}
    if found.start_seconds.median is not None:
        settings["start_seconds"] = float(f"{found.start_seconds.median:.4g}")
    return settings
