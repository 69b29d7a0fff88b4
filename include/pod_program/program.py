"""Run a program, and end it without waiting for what its clients still do."""

from __future__ import annotations

import atexit
import logging
import os
import sys
from collections.abc import Callable
from typing import NoReturn

from pod_program.errors import LagbenchError
from pod_program.exit_codes import ExitCode

_log = logging.getLogger("lagbench.programs")


def run_program(main: Callable[[], int], *, log: logging.Logger | None = None) -> NoReturn:
    """Run ``main`` and end this process with its exit code, whatever its threads wait for.

    A ``LagbenchError`` is one message and ends with its own code. Any other error ends with 3, and
    the log has its traceback.

    :param log: takes the messages; without it a ``LagbenchError`` is a line on standard error.
    """
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    try:
        code = int(main())
    except LagbenchError as error:
        if log is None:
            sys.stderr.write(f"{error}\n")
        else:
            log.error("%s", error)
        code = int(error.exit_code)
    except Exception:  # an ordinary end would wait for the threads of clients
        (log or _log).exception("the program failed")
        code = int(ExitCode.NOT_READY)
    end_program(code)


def end_program(code: int) -> NoReturn:
    """End this process with ``code``, whatever its threads wait for."""
    sys.stdout.flush()
    sys.stderr.flush()
    atexit._run_exitfuncs()  # noqa: SLF001  # os._exit leaves them out
    os._exit(code)
