"""Start the probe before and after one of lagbench's sources was written again.

usage: python -m tests.integration.start_after_edit FOLDER; prints JSON: whether each start of
three was a fork: when warm, after the edit, when warm again.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path

from tests.integration.start_both_ways import WARM_WITHIN_SECONDS, outcome

import lagbench
from lagbench.adapters.process.processes import GroupReaper
from lagbench.localkube.node.container_process import ContainerStarter
from lagbench.localkube.node.pod_environment import inheritable
from lagbench.localkube.warm_start import client
from lagbench.localkube.warm_start.client import WarmInterpreter


async def run(folder: Path) -> list[bool]:
    """Return which starts were forks."""
    client.PROGRAMS = ("tests.integration.",)
    inherited, reaper = inheritable(os.environ), GroupReaper()
    warm = WarmInterpreter(folder / "warm.log", inherited, reaper)
    starter = ContainerStarter(reaper, warm)
    forked = []
    try:
        warm.start()
        await asyncio.wait_for(warm.until_warm(), WARM_WITHIN_SECONDS)
        for step in ("warm", "edited", "warm again"):
            if step == "edited":
                (Path(lagbench.__file__).parent / "errors.py").touch()
            if step == "warm again":
                await asyncio.wait_for(warm.until_warm(), WARM_WITHIN_SECONDS)
            ended = await outcome(starter, folder, 0, "return", inherited)
            forked.append(ended["is_forked"] and ended["code"] == 3)
    finally:
        warm.close()
        reaper.close()
    return forked


if __name__ == "__main__":
    sys.stdout.write(json.dumps(asyncio.run(run(Path(sys.argv[1])))))
