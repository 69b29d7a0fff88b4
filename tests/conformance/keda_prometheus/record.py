"""Record what KEDA's own prometheus scaler makes of the cases.

``python -m tests.conformance.keda_prometheus.record [FILE]`` compiles ``recorder.go`` against the
KEDA that the rig is pinned to and writes the rows; default: ``tests/data``. It needs Go, the
module cache or a network, and no cluster.
"""

from __future__ import annotations

import gzip
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.cluster.rig.go_command import go, module_folder
from tests.cluster.rig.versions import pinned
from tests.conformance.keda_prometheus.cases import all_cases

MODULE = "github.com/kedacore/keda/v2"
ROWS = Path(__file__).parents[2] / "data" / "keda_prometheus.json.gz"
_SOURCE = Path(__file__).with_name("recorder.go")
_LIMIT_SECONDS = 120


def main(arguments: Sequence[str]) -> int:
    """Write the rows; returns the exit code."""
    target = Path(arguments[0]) if arguments else ROWS
    version = pinned().keda
    with tempfile.TemporaryDirectory() as folder:
        recorder = _build(Path(folder), version)
        played = subprocess.run(
            [recorder],
            input=json.dumps(all_cases()),
            capture_output=True,
            text=True,
            timeout=_LIMIT_SECONDS,
            check=True,
        )
    how = (
        f"KEDA {version}'s own NewPrometheusScaler, GetMetricSpecForScaling and "
        "GetMetricsAndActivity, each case against an HTTP server of its own; $SERVER is its "
        "address, $TIME an instant in whole seconds"
    )
    text = json.dumps({"how": how, "rows": json.loads(played.stdout)}, separators=(",", ":"))
    target.write_bytes(gzip.compress(text.encode(), mtime=0))
    sys.stdout.write(f"{len(all_cases())} rows in {target}\n")
    return 0


def _build(folder: Path, version: str) -> Path:
    """Compile the recorder in a module that requires KEDA and replaces what KEDA replaces."""
    keda = module_folder(MODULE, version)
    text = (keda / "go.mod").read_text(encoding="utf-8")
    (folder / "go.mod").write_text(text.replace(f"module {MODULE}", "module recorder", 1))
    shutil.copyfile(keda / "go.sum", folder / "go.sum")
    shutil.copyfile(_SOURCE, folder / "main.go")
    go(["mod", "edit", f"-require={MODULE}@v{version}"], folder)
    program = folder / "recorder"
    go(
        ["build", "-p=1", "-mod=mod", "-trimpath", "-ldflags=-s -w", "-o", str(program), "."],
        folder,
    )
    return program


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
