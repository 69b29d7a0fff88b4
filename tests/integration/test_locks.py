"""The locks, as the tools that list and check their packages read them; the real index answers."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest
from tests.audit import LOCKS, yanked

from lagbench.project import PROJECT_ROOT

pytestmark = pytest.mark.slow
LOCKED = re.compile(r"(?ms)^([a-z0-9._-]+)(?:\[[a-z0-9,_-]+\])?==(\S+)(.*?)(?=^\S|\Z)")
"""A package's name, version and the rest of its lines."""
HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Provide the folder that `make sbom` filled; checking the schema takes most of its time."""
    folder = tmp_path_factory.mktemp("sbom")
    subprocess.run(
        ["make", "--silent", "sbom", f"SBOM={folder}", "ARGS=--no-validate"],
        cwd=PROJECT_ROOT, check=True, capture_output=True, timeout=600,
    )  # fmt: skip
    return folder


@pytest.mark.parametrize("lock", LOCKS)
def test_the_sbom_has_every_locked_package_with_its_hashes(made: Path, lock: str) -> None:
    """Nothing is missing and nothing is added, name by name, version by version."""
    locked = {
        (name, version): sorted(HASH.findall(rest))
        for name, version, rest in LOCKED.findall((PROJECT_ROOT / lock).read_text())
    }
    listed = json.loads((made / f"{Path(lock).stem}.cdx.json").read_text())

    assert listed["bomFormat"] == "CycloneDX"
    assert locked
    assert {(c["name"], c["version"]): _hashes(c) for c in listed["components"]} == locked


def test_the_sbom_of_the_environment_has_licences(made: Path) -> None:
    """All but a few packages state theirs."""
    components = json.loads((made / "environment.cdx.json").read_text())["components"]
    without = {item["name"] for item in components if not item.get("licenses")}

    assert "apache-airflow" not in without
    assert len(without) * 20 < len(components)


def test_a_yanked_version_is_found(tmp_path: Path) -> None:
    """The package index says of requests 2.32.1 that it was yanked, and uv passes it on."""
    lock = tmp_path / "lock.txt"
    lock.write_text("idna==3.10\nrequests==2.32.1\n")

    answer = yanked(str(lock), _run)

    assert answer.unanswered is None
    assert [line.split(" ")[0] for line in answer.found] == ["requests==2.32.1"]


def _run(command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)


def _hashes(component: dict[str, list[dict[str, list[dict[str, str]]]]]) -> list[str]:
    references = component["externalReferences"]
    return sorted(h["content"] for reference in references for h in reference.get("hashes", []))
