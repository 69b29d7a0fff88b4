"""Run ``spark-submit`` for a job of this machine's commands, and wait for its end."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import pyspark

from localkube.processes import end_process, start_tied

_LOG_TAIL_CHARACTERS = 2_000


def spark_submit(
    arguments: Sequence[str], *, log_path: Path, environment: Mapping[str, str]
) -> tuple[int, str]:
    """Return the job's exit code and the end of its log; it ends with this process."""
    command = [str(Path(pyspark.__file__).parent / "bin" / "spark-submit"), *arguments]
    with (
        tempfile.TemporaryDirectory(prefix="lagbench-spark-") as scratch,
        log_path.open("wb") as log,
    ):
        variables = {**os.environ, **environment, "SPARK_LOCAL_DIRS": scratch}
        process = start_tied(command, log=log, env=variables)
        try:
            code = process.wait()
        finally:
            end_process(process.pid, grace_seconds=5)
    return code, log_path.read_text(errors="replace")[-_LOG_TAIL_CHARACTERS:]
