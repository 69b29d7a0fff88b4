"""Our KEDA and HPA against recorded traces of the real ones, one for each feature."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "tests" / "data" / "real_keda"
TRACES = sorted(
    path
    for path in DATA.glob("*.jsonl.gz")
    if not path.name.endswith((".syncs.jsonl.gz", ".ext-calls.jsonl.gz"))
)


def command(*paths: Path) -> subprocess.CompletedProcess[str]:
    """Run the conformance command from the repository root."""
    return subprocess.run(
        [sys.executable, "-m", "tests.conformance.real_keda", *map(str, paths)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=800,
        check=False,
    )


def test_every_trace_of_the_real_stack_is_reproduced() -> None:
    """Each recorded decision comes out the same, and so do all but 1 % of the seconds."""
    run = command(*TRACES)

    assert run.stderr == ""
    assert f"{len(TRACES)} of {len(TRACES)} traces reproduced" in run.stdout
    assert run.stdout.count(" 0 differ;") == len(TRACES) == 16
    assert run.returncode == 0
