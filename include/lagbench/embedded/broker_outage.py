"""``python -m lagbench.embedded.broker_outage --seconds 5``: stop the bench's broker for a time.

A line of JSON when the broker has ended, another when it answers clients again. Only the first is
this program's doing: the supervisor starts the broker, also if this program ends before.
"""

from __future__ import annotations

import argparse
import json
import sys

from lagbench import project
from lagbench.embedded import bench
from lagbench.errors import LagbenchError

BACK_SECONDS = 300.0
"""Limit for the broker's start, which takes 3 to 10 s, and minutes on a machine that is busy."""


def main() -> int:
    """Return 0 when the broker is back, else an error code with the reason on stderr."""
    parser = argparse.ArgumentParser(prog="python -m lagbench.embedded.broker_outage")
    parser.add_argument("--seconds", type=float, required=True)
    seconds = parser.parse_args().seconds
    try:
        stopped = bench.restart_broker(project.state_dir(), outage_seconds=seconds)
        _say(stopped_at=stopped.broker_changed_at)
        back = bench.await_broker(project.state_dir(), timeout_seconds=seconds + BACK_SECONDS)
        _say(back_at=back.broker_changed_at)
    except LagbenchError as error:
        sys.stderr.write(f"{error}\n")
        return int(error.exit_code)
    return 0


def _say(**line: int) -> None:
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
