"""End a program without waiting for what its clients still do."""

from __future__ import annotations

import atexit
import os
import sys
from typing import NoReturn


def end_program(code: int) -> NoReturn:
    """End this process with ``code``, whatever its threads wait for.

    An ordinary end joins the threads, and a client whose broker is away holds that up for minutes.
    What is registered for the end still runs: it flushes the log and deletes temporary files,
    among them the private key that the Kubernetes client has written from a kubeconfig.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    atexit._run_exitfuncs()  # noqa: SLF001  # os._exit leaves them out
    os._exit(code)
