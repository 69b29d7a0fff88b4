"""Share code between the conformance commands: reading an oracle file, counting, the report."""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

SHOWN_DIFFERENCES = 5


@dataclass
class Comparison:
    """The number of compared outcomes, and the differences of the model."""

    compared: int = 0
    differences: list[str] = field(default_factory=list)

    def expect(self, place: str, wanted: dict[str, Any], got: dict[str, Any]) -> None:
        """Count one outcome; note it as a difference when any of its values differs."""
        self.compared += 1
        wrong = {
            key: {"recorded": value, "computed": got.get(key)}
            for key, value in wanted.items()
            if got.get(key) != value
        }
        if wrong:
            self.differences.append(f"{place}: {json.dumps(wrong)}")


def read_json(path: Path) -> Any:
    """Return what a ``.json`` or ``.json.gz`` file holds."""
    raw = path.read_bytes()
    if raw[:2] == b"\x1f\x8b":
        raw = gzip.decompress(raw)
    return json.loads(raw)


def read_oracle(path: Path) -> dict[str, Any]:
    """Return the document of a ``.json`` or ``.json.gz`` file; it must be an object."""
    document = read_json(path)
    if not isinstance(document, dict):
        raise TypeError(f"{path}: an object was expected, got {type(document).__name__}")
    return document


def run_command(name: str, compare: Callable[[dict[str, Any]], Comparison]) -> int:
    """Compare the file named on the command line; 0 all agree, 1 a difference, 2 wrong input."""
    if len(sys.argv) != 2:
        sys.stderr.write(f"usage: python -m tests.conformance.{name} FILE\n")
        return 2
    path = Path(sys.argv[1])
    try:
        comparison = compare(read_oracle(path))
    except (OSError, ValueError, TypeError, KeyError) as error:
        sys.stderr.write(f"{path}: not readable as this kind of oracle: {error!r}\n")
        return 2
    return report_differences(comparison)


def report_differences(comparison: Comparison) -> int:
    """Print the count and the first differences; 0 when all agree, else 1."""
    agreeing = comparison.compared - len(comparison.differences)
    sys.stdout.write(f"{agreeing} of {comparison.compared} agree\n")
    for difference in comparison.differences[:SHOWN_DIFFERENCES]:
        sys.stdout.write(f"  {difference}\n")
    return 1 if comparison.differences or not comparison.compared else 0
