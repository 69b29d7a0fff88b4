"""``python -m tests.faults [WORD]``: put each fault in, and require that its tests fail.

A fault is text of the product and what it becomes, so it follows the code from file to file. It
stands in a TOML file beside this one: ``what`` a user would see, ``old``, ``new``, and the
``tests`` that notice it (paths for pytest).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
PRODUCT = ("include", "plugins", "dags", "spark_jobs")


def faults() -> list[dict[str, str]]:
    """Return every fault, in the order of the files."""
    files = sorted(HERE.glob("*.toml"))
    return [row for file in files for row in tomllib.loads(file.read_text())["fault"]]


def place_of(fault: dict[str, str], root: Path = ROOT) -> Path:
    """Return the one file that holds the text of ``fault``.

    :raises LookupError: for none and for several.
    """
    files = [file for folder in PRODUCT for file in (root / folder).rglob("*.py")]
    found = [file for file in files if fault["old"] in file.read_text()]
    if len(found) != 1 or found[0].read_text().count(fault["old"]) != 1:
        raise LookupError(f"{fault['what']}: its text stands in {len(found)} files")
    return found[0]


def main() -> None:
    """Print a line for each fault; exit 1 when one stays unnoticed."""
    word = "".join(sys.argv[1:])
    unnoticed = 0
    with tempfile.TemporaryDirectory() as made:
        copy = Path(made) / "copy"
        # Not "runs": a package of the product has that name, too.
        shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(".git", ".venv", ".*_cache"))
        (copy / ".venv").symlink_to(ROOT / ".venv")
        path = os.pathsep.join(str(copy / folder) for folder in (*PRODUCT, "."))
        for fault in faults():
            if word not in fault["what"]:
                continue
            file = place_of(fault, copy)
            text = file.read_text()
            file.write_text(text.replace(fault["old"], fault["new"]))
            command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider"]
            ended = subprocess.run(
                [*command, *fault["tests"].split()],
                cwd=copy,
                env=os.environ | {"PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"},
                capture_output=True,
                text=True,
                check=False,
            )
            file.write_text(text)
            # 1: a test failed. Others: pytest found no test, or could not read the fault.
            noticed = ended.returncode == 1
            unnoticed += not noticed
            failed = [line for line in ended.stdout.splitlines() if line.startswith("FAILED")]
            said = (failed or ended.stdout.splitlines()[-1:] or [ended.stderr])[0]
            sys.stdout.write(f"{'noticed' if noticed else 'UNNOTICED'}: {fault['what']}: {said}\n")
            sys.stdout.flush()
    sys.exit(1 if unnoticed else 0)


if __name__ == "__main__":
    main()
