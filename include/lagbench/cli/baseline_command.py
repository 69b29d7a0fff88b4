"""``lagbench baseline``: accept a night as the reference for the next ones."""

from __future__ import annotations

from lagbench.cli.cell_commands import RunArgument
from lagbench.cli.terminal import Terminal
from lagbench.errors import ExitCode


def baseline(run: RunArgument) -> int:
    """Make a passed rehearsal of daily_spike_rehearsal the baseline of its cell."""
    import time

    from lagbench.adapters.runs.named_run import find
    from lagbench.results.gate import accept

    accepted, before = accept(find(run), now=time.time_ns())
    console = Terminal()
    console.print(f"baseline: {accepted.run_id}", highlight=False, soft_wrap=True)
    if before is not None and before.run_id != accepted.run_id:
        console.print(f"before:   {before.run_id}", highlight=False, soft_wrap=True)
    return ExitCode.PASS
