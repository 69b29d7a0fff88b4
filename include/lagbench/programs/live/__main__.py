"""``python -m lagbench.programs.live``: write ``live.jsonl`` until the run ends.

It ends with the phase ``bench_down``, with its owner (also after SIGKILL), on SIGTERM, and after
``--longest-seconds``. A second follower of a run ends at once with exit code 3.
"""

from __future__ import annotations

import os
import signal
import sys

from lagbench.errors import ExitCode, NotReady
from lagbench.programs.live.run_follower import parse_settings
from pod_program.program import run_program


def main() -> int:
    """Run the follower; returns the exit code."""
    settings = parse_settings(sys.argv[1:], os.environ)

    from lagbench.programs.live.run_follower import OwnerWatch

    try:
        watch = OwnerWatch(settings.owner_pid)
    except ProcessLookupError:
        raise NotReady(f"the owner, process {settings.owner_pid}, has ended") from None
    for signum in (signal.SIGTERM, signal.SIGINT):
        signal.signal(signum, lambda *_: watch.ask())

    from lagbench.adapters.runs.run_folder import RunFolder
    from lagbench.programs.live.run_follower import follow_run

    folder = RunFolder(settings.run_folder)
    follow_run(folder, settings.bootstrap_servers, settings.longest_seconds, watch.wait)
    return ExitCode.PASS


if __name__ == "__main__":
    run_program(main)
