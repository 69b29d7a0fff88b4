"""``python -m lag_scaler``: serve KEDA until SIGTERM.

Exit code 0 after SIGTERM or SIGINT, 2 for wrong flags, 3 when a port or a certificate is not to be
had.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Mapping

from lag_scaler.log_limit import LogLimit
from lag_scaler.options import ScalerOptions, parse_options
from pod_program.errors import ExitCode
from pod_program.json_log import log_as_json
from pod_program.program import run_program

log = logging.getLogger("lag_scaler")
# Sampling and answering share the interpreter: at the default of 5 ms a call could wait as long.
_SWITCH_SECONDS = 0.0005


async def run(options: ScalerOptions, environment: Mapping[str, str]) -> None:
    """Serve until a signal comes."""
    from lag_scaler.server import serve

    until = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, until.set)
    await serve(options, environment, until)


def main() -> int:
    """Run as a program."""
    log_as_json(LogLimit())
    sys.setswitchinterval(_SWITCH_SECONDS)
    asyncio.run(run(parse_options(sys.argv[1:], os.environ), os.environ))
    return ExitCode.PASS


if __name__ == "__main__":
    run_program(main, log=log)
