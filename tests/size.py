"""``python -m tests.size``: count what there is to carry, without generated and vendored files."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections import Counter, defaultdict
from pathlib import Path

GENERATED = re.compile(r"/vendor/|/wire/externalscaler_pb2|\.lock$")
PRODUCT = ("include/", "plugins/", "dags/", "spark_jobs/")
CODE = (".py", ".js", ".j2")


def main() -> None:
    """Print lines, AST statements, characters and files of each package, then what is not code."""
    listed = subprocess.run(["git", "ls-files"], capture_output=True, text=True, check=True)
    tracked = listed.stdout.splitlines()
    sums: dict[str, Counter[str]] = defaultdict(Counter)
    words = 0
    for name in tracked:
        path = Path(name)
        if path.suffix in CODE and not GENERATED.search(name):
            whole = "product" if name.startswith(PRODUCT) else "tests"
            if whole == "product" or name.startswith("tests/"):
                for package in (whole, _package(path)):
                    sums[package].update(_counts(path))
        elif path.suffix == ".md" and not name.startswith("docs/findings/"):
            words += len(path.read_text().split())
    for package, counts in sorted(sums.items(), key=lambda row: -row[1]["lines"]):
        figures = "  ".join(f"{counts[key]:>9,} {key}" for key in _KEYS)
        sys.stdout.write(f"{package:<34}{figures}\n")
    sys.stdout.write(f"\n{words:,} words outside findings, {len(tracked):,} tracked files\n")


_KEYS = ("lines", "statements", "characters", "files")


def _counts(path: Path) -> dict[str, int]:
    text = path.read_text()
    nodes = ast.walk(ast.parse(text)) if path.suffix == ".py" else ()
    statements = sum(isinstance(node, ast.stmt) for node in nodes)
    return dict(zip(_KEYS, (text.count("\n"), statements, len(text), 1), strict=True))


def _package(path: Path) -> str:
    """Return the folder that is called a package: ``lagbench/core/measures``, ``tests/unit``."""
    deep = 4 if path.parts[:3] == ("include", "lagbench", "core") else 3
    return "/".join(
        path.parts[: min(deep if path.parts[0] == "include" else 2, len(path.parts) - 1)]
    )


if __name__ == "__main__":
    main()
