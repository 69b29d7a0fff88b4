"""``python -m tests.cluster [PYTEST ARGUMENTS]``: run the suite that needs a real Kubernetes."""

from __future__ import annotations

import sys

from tests.cluster.rig.binaries import build_all
from tests.cluster.rig.network import enter, problem

NOT_READY = 3

if __name__ == "__main__":
    reason = problem()
    if reason is not None:
        sys.stderr.write(f"not ready: {reason}\n")
        sys.exit(NOT_READY)
    build_all(lambda line: sys.stderr.write(f"{line}\n"))
    enter([sys.executable, "-m", "pytest", "tests/cluster", "tests/contract", *sys.argv[1:]])
