"""Start the probe as localkube starts containers: by an exec, and as a fork.

usage: python -m tests.integration.start_both_ways FOLDER NICENESS HOW …; prints JSON: for each HOW
the code and the output of the exec'd and of the forked process. HOW ``edit`` alone: whether each
start of three was a fork: when warm, after a source of ours was written again, when warm again.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

import lagbench
from lagbench.embedded.localkube_with_keda import WARM, pod_environment
from localkube.node.container_process import ContainerStarter
from localkube.node.pod_environment import LaunchPlan, with_own_python
from localkube.processes import GroupReaper
from localkube.warm_start.client import WarmInterpreter

_WARM_WITHIN_SECONDS = 180.0


class Starts:
    """The probe's folder, and what starts it there."""

    def __init__(self, folder: Path, niceness: int) -> None:
        """Start nothing yet; needs a running event loop."""
        self._folder, self._niceness = folder, niceness
        self.inherited, self.reaper = with_own_python(pod_environment(os.environ)), GroupReaper()
        self.warm = WarmInterpreter(
            folder / "warm.log", self.inherited, self.reaper, ("tests.integration.",), WARM
        )
        self._starter = ContainerStarter(self.reaper, self.warm)

    async def until_warm(self) -> None:
        """Wait for an interpreter that forks."""
        await asyncio.wait_for(self.warm.until_warm(), _WARM_WITHIN_SECONDS)

    async def outcome(self, how: str) -> dict[str, Any]:
        """Start the probe once and return how it ended."""
        own, log_file = self._folder / "pod", self._folder / "probe.log"
        own.mkdir(exist_ok=True)
        log_file.write_bytes(b"")
        more = {"PROBE_ONE": "1", "PROBE_BYTES": "\udcff", "PROBE_EMPTY": ""}
        command = ["python", "-m", "tests.integration.process_probe", how, "", "an ö", "--flag=1 2"]
        plan = LaunchPlan(command, self.inherited | more, own, niceness=self._niceness)
        process = await self._starter.start(plan, log_file, asyncio.Event())
        assert process is not None
        code = await process.exited
        return {"code": code, "output": log_file.read_text(), "is_forked": process.is_forked}


async def both_ways(starts: Starts, ways: list[str]) -> dict[str, Any]:
    """Return code and output of each of ``ways`` to end, exec'd and forked."""
    execed = {how: await starts.outcome(how) for how in ways}
    starts.warm.start()
    await starts.until_warm()
    return {how: {"exec": execed[how], "fork": await starts.outcome(how)} for how in ways}


async def around_an_edit(starts: Starts) -> list[bool]:
    """Return which starts were forks."""
    starts.warm.start()
    forked = []
    for step in ("warm", "edited", "warm again"):
        if step == "edited":
            (Path(lagbench.__file__).parent / "errors.py").touch()
        else:
            await starts.until_warm()
        ended = await starts.outcome("return")
        forked.append(ended["is_forked"] and ended["code"] == 3)
    return forked


async def main(folder: Path, niceness: int, ways: list[str]) -> object:
    """Return what is printed."""
    starts = Starts(folder, niceness)
    try:
        if ways == ["edit"]:
            return await around_an_edit(starts)
        return await both_ways(starts, ways)
    finally:
        starts.warm.close()
        starts.reaper.close()


if __name__ == "__main__":
    os.umask(0o027)
    outcomes = asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]))
    sys.stdout.write(json.dumps(outcomes))
