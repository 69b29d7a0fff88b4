"""Measure this machine: ``python -m tests.benchmarks [--only NAME …] [--scale F]``.

The exit code is 0 when everything could be measured, whether the aims were met or not; 1 when a
measurement failed.
"""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping

from rich.console import Console

from lagbench.errors import LagbenchError
from tests.benchmarks import (
    kafka_rates,
    kinds_of_work,
    lag_scaler,
    pages,
    simulator,
    spark_pipeline,
)
from tests.benchmarks.figures import Figure, print_figures, print_machine

MEASUREMENTS: Mapping[str, Callable[[float], Iterator[Figure]]] = {
    "producer": kafka_rates.measure_producer,
    "consumers": kafka_rates.measure_consumers,
    "work": kinds_of_work.measure,
    "spark": spark_pipeline.measure,
    "scaler": lag_scaler.measure,
    "simulator": simulator.measure,
    "pages": pages.measure,
}


def main() -> int:
    """Measure what was asked for; print each table as soon as it is there."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    parser.add_argument(
        "--only", nargs="+", metavar="NAME", choices=MEASUREMENTS, help=", ".join(MEASUREMENTS)
    )
    parser.add_argument(
        "--scale", type=_share, default=1.0, help="shorter and smaller: 0.05 for a quick try"
    )
    options = parser.parse_args()
    # So that children and folders are cleaned up.
    signal.signal(signal.SIGTERM, lambda signum, _frame: sys.exit(128 + signum))
    console = Console(width=None if sys.stdout.isatty() else 140)
    print_machine(console)
    has_failed = False
    for name in options.only or MEASUREMENTS:
        began_at = time.monotonic()
        figures = _measured(name, options.scale)
        has_failed |= any(figure.has_failed for figure in figures)
        print_figures(console, name, figures, time.monotonic() - began_at)
    return int(has_failed)


def _measured(name: str, scale: float) -> list[Figure]:
    """Return a measurement's figures; a failure is one of them, after those that came before."""
    found: list[Figure] = []
    try:
        found.extend(MEASUREMENTS[name](scale))
    except Exception as error:  # one that fails must not take the others with it
        said = str(error) if isinstance(error, LagbenchError) else repr(error)
        found.append(Figure(name, None, "", None, said, has_failed=True))
    return found


def _share(text: str) -> float:
    value = float(text)
    if not 0 < value <= 1:
        raise argparse.ArgumentTypeError(f"{text} is not allowed; allowed: above 0, at most 1")
    return value


if __name__ == "__main__":
    sys.exit(main())
