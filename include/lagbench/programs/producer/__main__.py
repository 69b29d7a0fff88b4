"""Run the producer: ``python -m lagbench.programs.producer --run-id RUN --profile step …``."""

from __future__ import annotations

import os
import sys

from lagbench.programs.producer.producer_settings import read_settings
from lagbench.programs.producer.session import run_session
from pod_program.program import run_program


def main() -> int:
    """Return 0 when every planned event was acknowledged, 143 after SIGTERM, else an error code."""
    return run_session(read_settings(sys.argv[1:], os.environ))


if __name__ == "__main__":
    run_program(main)
