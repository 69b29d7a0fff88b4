"""The wheel of lagbench works without a checkout."""

import os
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

from lagbench.catalog.catalog_files import list_policies, list_scenarios
from lagbench.project import PROJECT_ROOT

pytestmark = pytest.mark.slow

UV = Path(sys.executable).with_name("uv")


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel, install it beside this environment's libraries, return the command."""
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    tracked = subprocess.run(
        ["git", "ls-files", "-z", "--", ":!docs", ":!tests"],
        cwd=PROJECT_ROOT,
        capture_output=True,
        check=True,
        text=True,
    )
    for name in filter(None, tracked.stdout.split("\0")):
        target = source / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes((PROJECT_ROOT / name).read_bytes())
    options = ("--wheel", "--no-build-isolation", "--python", sys.executable, "-o", folder)
    subprocess.run([UV, "build", "--quiet", *options, source], check=True)
    venv.create(folder / "venv", with_pip=False)
    python = folder / "venv" / "bin" / "python"
    [wheel] = folder.glob("*.whl")
    subprocess.run(
        [UV, "pip", "install", "--quiet", "--no-deps", "--python", python, wheel], check=True
    )
    [packages] = (folder / "venv" / "lib").glob("python*/site-packages")
    (packages / "libraries.pth").write_text(sysconfig.get_path("purelib"))
    return folder / "venv" / "bin" / "lagbench"


def said(installed: Path, folder: Path, *arguments: str) -> str:
    """Run the command in an empty folder, and return what it printed."""
    outside = {k: v for k, v in os.environ.items() if not k.startswith(("LAGBENCH", "PYTHONPATH"))}
    done = subprocess.run(
        [installed, *arguments], cwd=folder, env=outside, capture_output=True, text=True, check=True
    )
    return done.stdout


def test_the_catalog_is_in_it(installed: Path, tmp_path: Path) -> None:
    """Every scenario and policy, without a checkout around."""
    scenarios, policies = (said(installed, tmp_path, verb) for verb in ("scenarios", "policies"))

    assert [name for name in list_scenarios() if name not in scenarios] == []
    assert [name for name in list_policies() if name not in policies] == []


def test_a_new_scenario_is_planned(installed: Path, tmp_path: Path) -> None:
    """Its manifests are in it, too; runs would be in the current folder."""
    said(installed, tmp_path, "new", "mine")

    assert "kind: Deployment" in said(
        installed, tmp_path, "plan", "mine/scenario.yaml", "--manifests"
    )
