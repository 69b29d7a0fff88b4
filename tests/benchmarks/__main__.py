"""Measure this machine: ``python -m tests.benchmarks [--only NAME …] [--scale F] [--json FILE]``.

The exit code is 0 when everything could be measured, whether the aims were met or not; 1 when a
measurement failed.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import FrameType
from typing import NoReturn

from rich.console import Console

from lagbench.errors import LagbenchError
from tests.benchmarks import (
    consumer_rate,
    dag_overhead,
    lag_scaler,
    many_pods,
    pod_start,
    producer_rate,
    rebalance_dip,
    simulate,
    spark_pipeline,
)
from tests.benchmarks.figures import Figure
from tests.benchmarks.machine import describe_machine
from tests.benchmarks.table import as_json, print_figures, print_machine

MEASUREMENTS: Mapping[str, Callable[[float], Iterator[Figure]]] = {
    module.NAME: module.measure
    for module in (
        producer_rate,
        consumer_rate,
        rebalance_dip,
        spark_pipeline,
        pod_start,
        many_pods,
        dag_overhead,
        lag_scaler,
        simulate,
    )
}


def main() -> int:
    """Measure what was asked for; print each table as soon as it is there."""
    options = _parser().parse_args()
    signal.signal(signal.SIGTERM, _leave)  # so that children and folders are cleaned up
    console = Console(width=None if sys.stdout.isatty() else 140)
    machine = describe_machine()
    print_machine(console, machine)
    figures: dict[str, list[Figure]] = {}
    for name in options.only or MEASUREMENTS:
        began_at = time.monotonic()
        figures[name] = _measured(name, options.scale)
        print_figures(console, name, figures[name], time.monotonic() - began_at)
    if options.json is not None:
        content = as_json(machine, options.scale, figures)
        options.json.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
        console.print(f"figures in {options.json}")
    return int(any(figure.has_failed for found in figures.values() for figure in found))


def _measured(name: str, scale: float) -> list[Figure]:
    """Return a measurement's figures; a failure is one of them, after those that came before."""
    found: list[Figure] = []
    try:
        found.extend(MEASUREMENTS[name](scale))
    except Exception as error:  # one that fails must not take the others with it
        said = str(error) if isinstance(error, LagbenchError) else repr(error)
        found.append(Figure(name, None, "", None, said, has_failed=True))
    return found


def _leave(signum: int, _frame: FrameType | None) -> NoReturn:
    sys.exit(128 + signum)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    parser.add_argument(
        "--only", nargs="+", metavar="NAME", choices=MEASUREMENTS, help=", ".join(MEASUREMENTS)
    )
    parser.add_argument(
        "--scale", type=_share, default=1.0, help="shorter and smaller: 0.05 for a quick try"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there, too")
    return parser


def _share(text: str) -> float:
    value = float(text)
    if not 0 < value <= 1:
        raise argparse.ArgumentTypeError(f"{text} is not allowed; allowed: above 0, at most 1")
    return value


if __name__ == "__main__":
    sys.exit(main())
