"""The code that goes along to executors."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np

from lagbench.embedded.spark_packages import write_code_zip


def test_the_zip_is_all_that_a_strange_python_needs(tmp_path: Path) -> None:
    """With the zip alone, every module of the jobs is found, for a driver too."""
    path = write_code_zip(tmp_path)
    libraries = str(Path(np.__file__).parents[1])
    code = (
        "import lagbench_spark.accounting, lagbench_spark.landing; "
        "import lagbench_spark.decode as rows; "
        "import lagbench.shared_with_spark.event as event; "
        "import lagbench.shared_with_spark.message_classes; "
        "print(rows.__file__, event.__file__)"
    )

    # -S: no .pth is read, so the editable installation of this project is not seen.
    done = subprocess.run(
        [sys.executable, "-S", "-c", code],
        env={"PYTHONPATH": f"{path}:{libraries}"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )

    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [
        f"{path}/lagbench_spark/decode.py",
        f"{path}/lagbench/shared_with_spark/event.py",
    ]
