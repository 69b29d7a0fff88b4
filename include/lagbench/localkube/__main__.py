"""Run localkube in the foreground: ``python -m lagbench.localkube --state-dir DIR [--port N]``."""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
from pathlib import Path

from lagbench.errors import LagbenchError
from lagbench.localkube.server import ServerSettings, serve


def main() -> int:
    """Serve until SIGTERM; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m lagbench.localkube", description=__doc__)
    parser.add_argument("--state-dir", type=Path, required=True, help="kubeconfig, pod logs, …")
    parser.add_argument("--port", type=int, default=0, help="loopback port; 0 takes any free one")
    parser.add_argument(
        "--stop-limit-seconds",
        type=float,
        default=60.0,
        help="on SIGTERM a pod gets its own grace period, but never more than this",
    )
    given = parser.parse_args()
    logging.basicConfig(
        stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s"
    )
    try:
        asyncio.run(serve(ServerSettings(given.state_dir, given.port, given.stop_limit_seconds)))
    except LagbenchError as error:
        sys.stderr.write(f"localkube: {error}\n")
        return int(error.exit_code)
    return 0


if __name__ == "__main__":
    sys.exit(main())
