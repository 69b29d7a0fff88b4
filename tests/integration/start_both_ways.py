"""Start the probe as localkube starts containers: by an exec, and as a fork.

usage: python -m tests.integration.start_both_ways FOLDER NICENESS HOW …; prints JSON: for each HOW
the code and the output of the exec'd and of the forked process.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

from lagbench.adapters.process.processes import GroupReaper
from lagbench.localkube.node.container_process import ContainerStarter
from lagbench.localkube.node.pod_environment import LaunchPlan, inheritable
from lagbench.localkube.warm_start import client
from lagbench.localkube.warm_start.client import WarmInterpreter

WARM_WITHIN_SECONDS = 180.0


async def run(folder: Path, niceness: int, ways: list[str]) -> dict[str, Any]:
    """Return code and output of each of ``ways`` to end, exec'd and forked."""
    client.PROGRAMS = ("tests.integration.",)
    inherited = inheritable(os.environ)
    reaper = GroupReaper()
    warm = WarmInterpreter(folder / "warm.log", inherited, reaper)
    starter = ContainerStarter(reaper, warm)
    found: dict[str, Any] = {}
    try:
        exec_outcomes = [await outcome(starter, folder, niceness, how, inherited) for how in ways]
        warm.start()
        await asyncio.wait_for(warm.until_warm(), WARM_WITHIN_SECONDS)
        for how, execed in zip(ways, exec_outcomes, strict=True):
            forked = await outcome(starter, folder, niceness, how, inherited)
            found[how] = {"exec": execed, "fork": forked}
    finally:
        warm.close()
        reaper.close()
    return found


async def outcome(
    starter: ContainerStarter, folder: Path, niceness: int, how: str, inherited: dict[str, str]
) -> dict[str, Any]:
    """Start the probe once and return how it ended."""
    own = folder / "pod"
    own.mkdir(exist_ok=True)
    log_file = folder / "probe.log"
    log_file.write_bytes(b"")
    environment = inherited | {"PROBE_ONE": "1", "PROBE_BYTES": "\udcff", "PROBE_EMPTY": ""}
    command = ["python", "-m", "tests.integration.process_probe", how, "", "an ö", "--flag=1 2"]
    plan = LaunchPlan(command, environment, own, niceness=niceness)
    process = await starter.start(plan, log_file, asyncio.Event())
    assert process is not None
    code = await process.exited
    return {"code": code, "output": log_file.read_text(), "is_forked": process.is_forked}


if __name__ == "__main__":
    os.umask(0o027)
    outcomes = asyncio.run(run(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]))
    sys.stdout.write(json.dumps(outcomes))
