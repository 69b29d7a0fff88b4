"""Run the producer: ``python -m lagbench.programs.producer --run-id RUN --profile step …``."""

from __future__ import annotations

import logging
import os
import sys

from lagbench.errors import LagbenchError
from lagbench.programs.producer.flags import read_settings
from lagbench.programs.producer.session import run_session


def main() -> int:
    """Return 0 when every planned event was acknowledged, 143 after SIGTERM, else an error code."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    try:
        return run_session(read_settings(sys.argv[1:], os.environ))
    except LagbenchError as error:
        sys.stderr.write(f"{error}\n")
        return int(error.exit_code)


if __name__ == "__main__":
    sys.exit(main())
