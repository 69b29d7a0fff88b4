"""The images of ``make test-kubernetes``, made without an engine, are those of the Dockerfiles."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from tests.cluster.rig import program_image, spark_image

from lagbench.project import PROJECT_ROOT

IMAGES = PROJECT_ROOT / "k8s" / "images"
BOTH = [("programs", program_image), ("spark", spark_image)]
# Where things are: the libraries have a folder of their own there, and no virtual environment.
PLACES = {"PATH", "PYTHONPATH", "JAVA_HOME", "SPARK_HOME"}
PLACES |= {"PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"}


@pytest.mark.parametrize(("name", "rig"), BOTH)
def test_both_run_as_the_same_user_in_the_same_environment(name: str, rig: Any) -> None:
    """User, working folder and every variable that is no place are equal."""
    text = _joined(name)
    given = dict(re.findall(r"\b([A-Z_]+)=(\S+)", " ".join(_last_stage(text, "ENV"))))
    there = dict(item.split("=", 1) for item in rig.SETTINGS["Env"])

    assert _last_stage(text, "USER")[-1] == rig.SETTINGS["User"]
    assert _last_stage(text, "WORKDIR")[-1] == rig.SETTINGS["WorkingDir"]
    assert {k: v for k, v in given.items() if k not in PLACES} == {
        k: v for k, v in there.items() if k not in PLACES
    }


@pytest.mark.parametrize(("name", "rig"), BOTH)
def test_the_rig_has_what_the_dockerfile_copies(name: str, rig: Any) -> None:
    """Code that the Dockerfile copies is below a folder that the rig copies; the lock is one."""
    copied = [
        source
        for words in re.findall(r"^COPY (?!--)(.+)$", _joined(name), re.MULTILINE)
        for source in words.split()[:-1]
    ]
    code = [source for source in copied if not source.startswith("k8s/images/")]
    folders = [Path(source) for source in rig.SOURCES.values()]

    assert code
    assert [c for c in code if not any(Path(c).is_relative_to(f) for f in folders)] == []
    assert f"k8s/images/{name}.txt" in copied
    assert IMAGES / f"{name}.txt" == rig.REQUIREMENTS


def _joined(name: str) -> str:
    """Return a Dockerfile with continued lines as one."""
    return (IMAGES / f"{name}.Dockerfile").read_text().replace("\\\n", " ")


def _last_stage(text: str, instruction: str) -> list[str]:
    stage = text[text.rindex("\nFROM ") :]
    return re.findall(rf"^{instruction} (.+)$", stage, re.MULTILINE)
