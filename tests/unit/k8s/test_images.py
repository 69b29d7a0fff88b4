"""The Dockerfiles, as far as they can be checked without an engine to build them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.unit.k8s.program_imports import INCLUDE, distributions, reachable

ROOT = INCLUDE.parent
IMAGES = ROOT / "k8s" / "images"
DOCKERFILES = sorted(IMAGES.glob("*.Dockerfile"))
LOCKS = sorted(IMAGES.glob("*.txt"))
# Installed names that are not the import's, or several packages below one name.
NAMESPACES = {"google": "protobuf", "grpc_health": "grpcio-health-checking"}
# The interpreter's time zones, where the image has none; nothing imports it by name.
NOT_IMPORTED = {"tzdata"}


@pytest.mark.parametrize("dockerfile", DOCKERFILES, ids=lambda path: path.stem)
def test_images_are_pinned_and_run_without_root(dockerfile: Path) -> None:
    """Each base has a full version, and the last user is a number that is not 0."""
    steps = _steps(dockerfile)
    stages = {words[-1] for name, words in steps if name == "FROM" and "AS" in words}

    bases = [words[0] for name, words in steps if name == "FROM" and words[0] not in stages]
    users = [words[0] for name, words in steps if name == "USER"]

    assert all(re.search(r":\d+\.\d+\.\d+", base) for base in bases)
    assert int(users[-1].split(":")[0]) > 0
    assert [name for name, _ in steps].count("FROM") > 1, "one stage only"


@pytest.mark.parametrize("dockerfile", DOCKERFILES, ids=lambda path: path.stem)
def test_what_is_copied_is_there_and_sent(dockerfile: Path) -> None:
    """Every source of a COPY exists, and .dockerignore lets it through."""
    allowed = [
        line[1:] for line in (ROOT / ".dockerignore").read_text().split() if line.startswith("!")
    ]

    for name, words in _steps(dockerfile):
        if name != "COPY" or words[0].startswith("--from"):
            continue
        for source in words[:-1]:
            assert (ROOT / source).exists(), source
            assert any(f"{source}/".startswith(f"{a}/") or a.startswith(source) for a in allowed)


@pytest.mark.parametrize("lock", LOCKS, ids=lambda path: path.stem)
def test_requirements_are_those_of_the_lock(lock: Path) -> None:
    """Every package has hashes and, where requirements.txt has it too, the same version."""
    ours, all_versions = _versions(lock), _versions(ROOT / "requirements.txt")
    shared = ours.keys() & all_versions.keys()

    assert {name: ours[name] for name in shared} == {name: all_versions[name] for name in shared}
    assert lock.stem == "postgres" or shared == ours.keys()
    assert lock.read_text().count("==") <= lock.read_text().count("--hash=")


def test_the_programs_image_holds_what_the_programs_import() -> None:
    """programs.in names the packages behind their imports, no more and no fewer."""
    _, modules = reachable(sorted((INCLUDE / "lagbench" / "programs").rglob("*.py")))
    named = {n for n in NAMESPACES if any(m.split(".")[0] == n for m in modules)}

    needed = distributions(modules, but=set(NAMESPACES)) | {NAMESPACES[name] for name in named}

    assert needed == _named(IMAGES / "programs.in") - NOT_IMPORTED


def test_the_spark_image_holds_what_the_jobs_import() -> None:
    """spark.in names the packages of the jobs, of Spark's daemons and of the fetching of jars."""
    programs = INCLUDE / "lagbench" / "programs"
    roots = [*(ROOT / "spark_jobs").rglob("*.py"), INCLUDE / "lagbench/embedded/jars.py"]
    roots += (programs / "spark_daemon").rglob("*.py")
    _, modules = reachable(sorted(roots))
    own = {"lagbench_enrich", "lagbench_spark", "land", "account", "timeline", "draw"}

    needed = distributions(modules, but=own)

    assert needed - {"pyspark-client"} | {"pandas"} == _named(IMAGES / "spark.in")


def test_the_programs_image_holds_their_code() -> None:
    """Every file of lagbench that a program can reach is in a folder that is copied."""
    files, _ = reachable(sorted((INCLUDE / "lagbench" / "programs").rglob("*.py")))
    copied = [
        ROOT / source
        for name, words in _steps(IMAGES / "programs.Dockerfile")
        if name == "COPY" and not words[0].startswith("--from")
        for source in words[:-1]
    ]

    missing = [f for f in files if not any(f == c or f.is_relative_to(c) for c in copied)]

    assert missing == []


def _steps(dockerfile: Path) -> list[tuple[str, list[str]]]:
    """Return each instruction with its words; continued lines are one, comments none."""
    lines = [line for line in dockerfile.read_text().splitlines() if not line.startswith("#")]
    text = "\n".join(lines).replace("\\\n", " ")
    found = [line.split() for line in text.splitlines() if line.strip()]
    return [(w[0], [x for x in w[1:] if not x.startswith("--chown")]) for w in found]


def _named(path: Path) -> set[str]:
    lines = (line.partition("#")[0].strip() for line in path.read_text().splitlines())
    return {line for line in lines if line}


def _versions(path: Path) -> dict[str, str]:
    return dict(re.findall(r"^([a-z0-9-]+)==([^\s;\\]+)", path.read_text(), re.MULTILINE))
