"""The recorded answers of the API server and KEDA's webhook: none differs, and one could."""

import gzip
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
CASES = ROOT / "tests" / "data" / "keda_webhook_cases.json.gz"


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the conformance command from the repository root."""
    return subprocess.run(
        [sys.executable, "-m", "tests.conformance.webhook", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def rows() -> list[dict[str, Any]]:
    """Return the recorded rows."""
    found: list[dict[str, Any]] = json.loads(gzip.decompress(CASES.read_bytes()))
    return found


def test_every_row_agrees_in_answer_reason_and_warnings() -> None:
    """140 answers, 50 reasons of refusals (two of them of updates) and 6 sets of warnings."""
    run = command(str(CASES))

    assert run.stdout.startswith("140 of 140 agree\n")
    assert "reasons equal: 50 of 50; warnings equal: 6 of 6" in run.stdout
    assert run.returncode == 0


def test_a_turned_answer_is_reported_with_exit_code_1(tmp_path: Path) -> None:
    """One turned answer is one difference, named by its row."""
    changed = rows()[:10]
    changed[3]["accepted"] = not changed[3]["accepted"]
    path = tmp_path / "changed.json"
    path.write_text(json.dumps(changed))

    run = command(str(path))

    assert "9 of 10 agree" in run.stdout
    assert changed[3]["name"] in run.stdout
    assert run.returncode == 1


def test_a_second_object_on_a_target_is_refused_by_the_rows_before_it(tmp_path: Path) -> None:
    """An accepted row is in the cluster of the next one; nothing of its own answer is needed."""
    first = next(row for row in rows() if row["name"] == "conflict2-first")
    second = json.loads(json.dumps(first))
    second["manifest"]["metadata"]["name"] = second["name"] = "conflict2-second"
    second |= {"accepted": False, "message": None}
    path = tmp_path / "two.json"
    path.write_text(json.dumps([first, second]))

    run = command(str(path))

    assert "2 of 2 agree" in run.stdout
    assert "0 of the rows take a fact" in run.stdout


def test_a_file_of_another_kind_is_wrong_input(tmp_path: Path) -> None:
    """A file without rows ends with exit code 2, not with a traceback."""
    other = tmp_path / "other.json"
    other.write_text('{"cases": [1]}')

    run = command(str(other))

    assert run.returncode == 2
    assert "not readable" in run.stderr
    assert command().returncode == 2
