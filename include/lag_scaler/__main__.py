"""``python -m lag_scaler``: serve KEDA until SIGTERM.

Exit code 0 after SIGTERM or SIGINT, 2 for wrong flags, 3 when a port or a certificate is not to be
had. A caller can cause lines of the log, so their number per minute and their length are limited.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from lag_scaler.options import ScalerOptions, parse_options
from pod_program.exit_codes import ExitCode
from pod_program.json_log import log_as_json
from pod_program.program import run_program
from pod_program.shown import cut

log = logging.getLogger("lag_scaler")
# Sampling and answering share the interpreter: at the default of 5 ms a call could wait as long.
_SWITCH_SECONDS = 0.0005


# Lines of INFO follow objects, whose number is limited; a warning may come from any call.
INFO_LINES_PER_MINUTE = 1_000
OTHER_LINES_PER_MINUTE = 100
LONGEST_VALUE = 2_000
_SECONDS = 60.0


class LogLimit(logging.Filter):
    """Drops the lines above an event's limit; its next line has their number as ``left_out``."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        """Count from now on."""
        super().__init__()
        self._monotonic = monotonic
        self._minute = 0.0
        self._written: Counter[str] = Counter()
        self._left_out: Counter[str] = Counter()

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether a line is written; cut its values."""
        if isinstance(record.msg, dict):
            fields, event = record.msg, str(record.msg["event"])
        else:  # another library's: its text has values in it, so its lines count together
            fields, event = {"event": record.getMessage()}, record.name
        minute = self._monotonic() // _SECONDS
        if minute != self._minute:
            self._minute = minute
            self._written.clear()
        self._written[event] += 1
        is_info = record.levelno <= logging.INFO
        if self._written[event] > (INFO_LINES_PER_MINUTE if is_info else OTHER_LINES_PER_MINUTE):
            self._left_out[event] += 1
            return False
        left_out = self._left_out.pop(event, 0)
        short = {name: _cut(value) for name, value in fields.items()}
        if fields is record.msg:
            record.msg = {**short, **({"left_out": left_out} if left_out else {})}
        else:
            record.msg, record.args = short["event"], ()
        return True


def _cut(value: Any) -> Any:
    """Return a value of at most ``LONGEST_VALUE`` characters; the end of a traceback says most."""
    text = value if isinstance(value, str) else repr(value)
    return value if len(text) <= LONGEST_VALUE else cut(text, LONGEST_VALUE)


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
