"""The wheel of lagbench works without a checkout."""

import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

from lagbench.catalog.catalog_files import list_policies, list_scenarios
from lagbench.project import PROJECT_ROOT

pytestmark = pytest.mark.slow

UV = Path(sys.executable).with_name("uv")
BUILD = (UV, "build", "--quiet", "--no-build-isolation", "--python", sys.executable)


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build both wheels from sdists, install them beside our libraries; return the command."""
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
    for project in (source, source / "plugins"):
        subprocess.run([*BUILD, "-o", folder, project], check=True)
    # A venv usually lies in a project of its user's, which is no checkout of lagbench.
    (folder / "pyproject.toml").write_text("[project]\nname = 'mine'\nversion = '1'\n")
    venv.create(folder / "venv", with_pip=False)
    python = folder / "venv" / "bin" / "python"
    install = [UV, "pip", "install", "--quiet", "--no-deps", "--python", python]
    subprocess.run([*install, *folder.glob("*.whl")], check=True)
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


def test_an_sdist_builds_the_same_wheels(installed: Path, tmp_path: Path) -> None:
    """As a checkout does, file by file."""
    folder = installed.parents[2]
    for project in (folder / "source", folder / "source" / "plugins"):
        subprocess.run([*BUILD, "--wheel", "-o", tmp_path, project], check=True)

    for path in tmp_path.glob("*.whl"):
        with zipfile.ZipFile(path) as direct, zipfile.ZipFile(folder / path.name) as built:
            assert sorted(built.namelist()) == sorted(direct.namelist())


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


@pytest.mark.parametrize("has_folder", [True, False])
def test_airflow_registers_the_plugin_once(
    installed: Path, tmp_path: Path, has_folder: bool
) -> None:
    """Installed, and beside the folder of a checkout; as a provider it brings its connection."""
    program = (
        "from airflow.plugins_manager import get_plugin_info; "
        "from airflow.providers_manager import ProvidersManager; "
        "print([one['name'] for one in get_plugin_info() if one['name'] == 'lagbench'], "
        "ProvidersManager().hooks['kafka'].package_name)"
    )
    folder = PROJECT_ROOT / "plugins" if has_folder else tmp_path
    variables = {"AIRFLOW_HOME": str(tmp_path), "AIRFLOW__CORE__PLUGINS_FOLDER": str(folder)}

    done = subprocess.run(
        [installed.with_name("python"), "-c", program],
        env={"PATH": os.environ["PATH"], **variables},
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stdout.splitlines()[-1] == "['lagbench'] lagbench-airflow"
    assert "already registered" not in done.stdout + done.stderr
