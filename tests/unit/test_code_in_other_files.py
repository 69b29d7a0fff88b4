"""Python that stands in a Makefile, a Dockerfile, a manifest or a page finds what it imports."""

import ast
import importlib
import importlib.util
import re
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from lagbench.project import PROJECT_ROOT

OURS = r"(?:lag_scaler|lagbench|lagbench_airflow|pod_program|tests)"


def statements() -> Iterator[Any]:
    """Yield each import of the project's own modules that is written outside of Python files."""
    command = ["git", "ls-files", "--", ".", ":!*.py", ":!docs/findings", ":!tests/faults"]
    listed = subprocess.run(command, cwd=PROJECT_ROOT, capture_output=True, text=True, check=True)
    for name in listed.stdout.splitlines():
        try:
            text = (PROJECT_ROOT / name).read_text().replace("\\\n", " ")
        except (UnicodeDecodeError, IsADirectoryError):
            continue
        for found in re.findall(rf"from {OURS}[\w.]* import \w+(?:, *\w+)*", text):
            yield pytest.param(found, id=f"{name}: {found}")
        for found in re.findall(rf"-m ({OURS}(?:\.[a-z_.]*[a-z_])?)\b", text):
            yield pytest.param(f"import {found}", id=f"{name}: {found}")


@pytest.mark.parametrize("statement", sorted(set(statements()), key=lambda one: one.id))
def test_what_it_imports_is_there(statement: str) -> None:
    """A name moves to another module: the Makefile of a fresh clone says so before CI does."""
    [node] = ast.parse(statement).body
    if isinstance(node, ast.Import):
        assert importlib.util.find_spec(node.names[0].name), statement
        return
    module = importlib.import_module(node.module)
    for name in node.names:
        is_module = (
            importlib.util.find_spec(f"{node.module}.{name.name}")
            if hasattr(module, "__path__")
            else None
        )
        assert hasattr(module, name.name) or is_module, statement
