"""``python -m lagbench.programs.live``: write ``live.jsonl`` until the run ends.

It ends with the phase ``bench_down``, with its owner (also after SIGKILL), on SIGTERM, and after
``--longest-seconds``. A second follower of a run ends at once with exit code 3.
"""

from __future__ import annotations

import os
import signal
import sys

from lagbench.errors import ExitCode, NotReady
from lagbench.programs.live.settings import FollowerSettings, parse_settings
from lagbench.programs.program_end import run_program


def main() -> int:
    """Run the follower; returns the exit code."""
    _follow(parse_settings(sys.argv[1:], os.environ))
    return ExitCode.PASS


def _follow(settings: FollowerSettings) -> None:
    from lagbench.programs.live.owner_watch import OwnerWatch

    try:
        watch = OwnerWatch(settings.owner_pid)
    except ProcessLookupError:
        raise NotReady(f"the owner, process {settings.owner_pid}, has ended") from None
    for signum in (signal.SIGTERM, signal.SIGINT):
        signal.signal(signum, lambda *_: watch.ask())

    from lagbench.adapters.runs.run_folder import RunFolder
    from lagbench.programs.live.run_follow import RunFollow

    run = RunFollow(
        RunFolder(settings.run_folder), settings.bootstrap_servers, settings.longest_seconds
    )
    run.follow(watch.wait)


if __name__ == "__main__":
    run_program(main)
