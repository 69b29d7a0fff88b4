"""``python -m tests.cluster [PYTEST ARGUMENTS]``: run the suite that needs a real Kubernetes.

Arguments that name files or folders are run instead of the whole suite.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import NoReturn

from tests.cluster.rig.network import enter
from tests.cluster.rig.prepare import prepare

NOT_READY = 3
SUITE = ("tests/cluster", "tests/contract")


def main(arguments: list[str]) -> NoReturn:
    """Become pytest inside the rig's namespaces; exit with 3 where a rig cannot start."""
    reason = prepare(lambda line: sys.stderr.write(f"{line}\n"))
    if reason is not None:
        sys.stderr.write(f"{reason}\n")
        sys.exit(NOT_READY)
    named = any(Path(argument.split("::")[0]).exists() for argument in arguments)
    enter([sys.executable, "-m", "pytest", *(() if named else SUITE), *arguments])


if __name__ == "__main__":
    main(sys.argv[1:])
