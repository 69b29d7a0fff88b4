"""End a program without waiting for what its clients still do."""

from __future__ import annotations

import atexit
import os
import sys
from typing import NoReturn


def end_program(code: int) -> NoReturn:
    """End this process with ``code``, whatever its threads wait for.

    An ordinary end joins the threads, and a client whose broker is unreachable delays that for
    minutes. The exit handlers still run: they flush the log and delete temporary files. The
    Kubernetes client writes a private key to such a file when a kubeconfig has one.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    atexit._run_exitfuncs()  # noqa: SLF001  # os._exit leaves them out
    os._exit(code)
