"""``python -m tests.cluster.rig [COMMAND…]``: bring the rig up, run a command against it, end.

The command sees KUBECONFIG; without one it is a shell.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.cluster.rig.binaries import build_all
from tests.cluster.rig.network import enter, is_inside, problem
from tests.cluster.rig.rig import Rig


def main(command: list[str]) -> int:
    """Return the command's exit code."""
    if not is_inside():
        reason = problem()
        if reason is not None:
            sys.stderr.write(f"not ready: {reason}\n")
            return 3
        build_all(lambda line: sys.stderr.write(f"{line}\n"))
        enter([sys.executable, "-m", "tests.cluster.rig", *command])
    with tempfile.TemporaryDirectory(prefix="lagbench-rig-") as folder:
        began = time.monotonic()
        rig = Rig.up(Path(folder), build_all(lambda line: sys.stderr.write(f"{line}\n")))
        try:
            sys.stderr.write(f"rig up in {time.monotonic() - began:.1f} s\n")
            wanted = command or [os.environ.get("SHELL", "bash")]
            environment = {
                **os.environ,
                "KUBECONFIG": str(rig.kubeconfig),
                "PATH": f"{rig.binaries.folder}{os.pathsep}{os.environ['PATH']}",
            }
            return subprocess.call(wanted, env=environment)
        finally:
            rig.down()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
