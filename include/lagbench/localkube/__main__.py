"""Run localkube in the foreground: ``python -m lagbench.localkube --state-dir DIR [--port N]``."""

from __future__ import annotations

import asyncio
import logging
import sys

from lagbench.errors import LagbenchError
from lagbench.localkube.localkube_server import ServerSettings, serve
from pod_program.flags import CommandLine


def main() -> int:
    """Serve until SIGTERM; return the exit code."""
    logging.basicConfig(
        stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s"
    )
    try:
        line = CommandLine(ServerSettings, module="lagbench.localkube")
        asyncio.run(serve(line.read(sys.argv[1:], {})))
    except LagbenchError as error:
        sys.stderr.write(f"{error}\n")
        return int(error.exit_code)
    return 0


if __name__ == "__main__":
    sys.exit(main())
