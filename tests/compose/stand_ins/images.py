"""Images under the tags of docker-compose.yaml and the Dockerfiles, which no registry has here.

What each is made of, and what it leaves unproven, is in docs/kubernetes.md.
"""

from __future__ import annotations

import lzma
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path

from lagbench.embedded.jars import BROKER, JarSet, jar_paths
from tests.compose.engine.engine import Engine
from tests.compose.engine.go_programs import go_program
from tests.compose.stand_ins.base import BASE, base_layer, pip_settings

_HERE = Path(__file__).resolve().parent
_POSTGRES = JarSet("postgres", "17.6.0", _HERE / "postgres-jars.lock")
_BUILD_LIMIT_SECONDS = 1200
TAGS = {
    "python": "python:3.11.14-slim-bookworm",
    "postgres": "postgres:17.6-bookworm",
    "kafka": "apache/kafka:4.4.0",
    "prometheus": "prom/prometheus:v3.5.0",
    "grafana": "grafana/grafana:12.2.0",
}
"""The tags by the folders here, those that others are made of first."""


def prepare_parts() -> None:
    """Make or fetch what the images are made of, as far as it is not there.

    :raises NotReady: a jar could not be fetched.
    :raises ImageFailed: the root file system could not be made.
    """
    base_layer()
    jar_paths(_POSTGRES)
    jar_paths(BROKER)


def build_stand_ins(engine: Engine) -> None:
    """Build all of them; containers have to reach the packages meanwhile."""
    engine.docker("import", str(base_layer()), BASE, limit_seconds=_BUILD_LIMIT_SECONDS)
    for name, tag in TAGS.items():
        context = engine.work / f"context-{name}"
        shutil.copytree(_HERE / name, context)
        if name in _PARTS:
            _PARTS[name](context)
        command = ("build", "--quiet", "--tag", tag, str(context))
        engine.docker(*command, limit_seconds=_BUILD_LIMIT_SECONDS)
        shutil.rmtree(context)


def _python(context: Path) -> None:
    (context / "pip.conf").write_text(pip_settings())


def _postgres(context: Path) -> None:
    """Unpack the server: an archive of xz in a jar."""
    (jar,) = jar_paths(_POSTGRES)
    with zipfile.ZipFile(jar) as content:
        (archive,) = [name for name in content.namelist() if name.endswith(".txz")]
        with (
            content.open(archive) as packed,
            lzma.open(packed) as plain,
            (context / "server.tar").open("wb") as server,
        ):
            shutil.copyfileobj(plain, server)


def _kafka(context: Path) -> None:
    (context / "libs").mkdir()
    for jar in jar_paths(BROKER):
        shutil.copy(jar, context / "libs")


def _prometheus(context: Path) -> None:
    shutil.copy(go_program("prometheus"), context)


_PARTS: dict[str, Callable[[Path], None]] = {
    "python": _python,
    "postgres": _postgres,
    "kafka": _kafka,
    "prometheus": _prometheus,
}
