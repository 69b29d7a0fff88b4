"""localkube is a product of its own: built as a wheel, installed without lagbench, started."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.eventually import eventually
from tests.integration.localkube_process import started_localkube
from tests.integration.pod_manifests import NAMESPACE, deployment

from lagbench.project import PROJECT_ROOT

pytestmark = pytest.mark.slow

SCRIPT = (
    "import importlib.util, signal\n"
    "found = [importlib.util.find_spec(name) for name in ('localkube', 'lagbench')]\n"
    "print([spec is not None for spec in found], flush=True); signal.pause()"
)


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Provide the programs of an environment with localkube's wheel and what it depends on."""
    folder = tmp_path_factory.mktemp("alone")
    source = shutil.copytree(PROJECT_ROOT / "include" / "localkube", folder / "source")
    uv = str(Path(sys.executable).parent / "uv")
    subprocess.run([uv, "venv", "-q", "--python", sys.executable, folder / "venv"], check=True)
    python = folder / "venv" / "bin" / "python"
    install = [uv, "pip", "install", "-q", "--python", python, source]
    subprocess.run(install, check=True, timeout=300)
    return python.parent


def test_it_runs_pods_without_lagbench(environment: Path, tmp_path: Path) -> None:
    """The official client creates a Deployment; its pod sees localkube's packages only."""
    plain = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    with started_localkube([environment / "localkube"], tmp_path, env=plain) as localkube:
        kind = localkube.client().resources.get(api_version="apps/v1", kind="Deployment")
        kind.create(body=deployment("web", 2, SCRIPT), namespace=NAMESPACE)

        def ready() -> bool:
            return kind.get(name="web", namespace=NAMESPACE).status.readyReplicas == 2

        eventually(ready, "two ready pods")
        pods = localkube.client().resources.get(api_version="v1", kind="Pod")
        names = [pod.metadata.name for pod in pods.get(namespace=NAMESPACE).items]
        for name in names:
            eventually(lambda name=name: localkube.log(name), f"the output of {name}")
            assert localkube.log(name) == "[True, False]\n"
        localkube.process.terminate()
        assert localkube.process.wait(timeout=60) == 0
