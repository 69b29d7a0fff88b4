"""The time of whole ``lagbench simulate`` commands, as a pull request waits for them."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from math import pi, sin
from pathlib import Path

from tests.benchmarks.figures import Aim, Figure

_CALL = "from lagbench.cli.app import main; main()"
DAY_SECONDS = 86_400
SCENARIO = """
name: day
description: A day with a rate per minute, and a spike at ten
policy: lag-quick
partitions: 12
keys: {entities: 5000000, zipf_s: 1.1}
consumer: {process_ms: 2}
profile: {kind: trace, file: day.csv}
"""


def write_day(folder: Path) -> Path:
    """Write the scenario of a day's trace; return its path."""
    rows = ["second,rate"]
    for minute in range(DAY_SECONDS // 60):
        rate = (900 - 800 * sin(2 * pi * minute / 1440 + pi / 2)) * (
            2 if 600 <= minute < 608 else 1
        )
        rows.append(f"{60 * minute},{rate + 37 * (minute % 7):.1f}")
    (folder / "day.csv").write_text("\n".join([*rows, f"{DAY_SECONDS},0\n"]))
    (folder / "day.yaml").write_text(SCENARIO)
    return folder / "day.yaml"


def measure(scale: float) -> Iterator[Figure]:
    """Yield the seconds of each command, and its processor time."""
    with tempfile.TemporaryDirectory() as folder:
        day = str(write_day(Path(folder)))
        for name, scenario, seeds, most in (
            ("lab_spike", "lab_spike", 100, 3.0),
            ("a day's trace", day, 10, 10.0),
        ):
            count = max(1, round(seeds * scale))
            yield from _figures(f"{name}, {count} seeds", scenario, count, Aim("at most", most))


def _figures(name: str, scenario: str, seeds: int, aim: Aim) -> Iterator[Figure]:
    command = [sys.executable, "-c", _CALL, "simulate", scenario, "--seeds", str(seeds)]
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=os.environ)
    seconds, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    yield Figure(name, seconds, "s", aim)
    yield Figure(f"{name}: processor time", used, "s")
