"""Build the examples of own consumers that are compiled: Java against Kafka's client, and Go.

``python -m lagbench.embedded.example_consumers`` builds each beside its source, in ``build``, where
its manifest expects it. A compiler that is missing is named; the other example is still built.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from lagbench.embedded.jars import BROKER, jar_paths
from lagbench.embedded.java import find_java
from lagbench.errors import LagbenchError, NotReady
from lagbench.project import PROJECT_ROOT

_BUILD_SECONDS = 900.0  # Go compiles its standard library the first time
# What Kafka's client needs at run time, and the JSON parser of the example.
_CLIENT_JARS = re.compile(
    r"kafka-clients|slf4j-api|lz4-java|snappy-java|zstd-jni|jackson-(c|d|a).*"
)
_TAIL_LINES = 20


def examples_folder() -> Path:
    """Return the folder of the examples of own consumers."""
    return PROJECT_ROOT / "include" / "catalog" / "consumers"


def build_java(folder: Path) -> Path:
    """Compile OrderPrices.java of ``folder`` into its ``build``, with the client's jars beside.

    :raises NotReady: there is no javac, or it fails.
    """
    javac = find_java().home / "bin" / "javac"
    command = str(javac) if javac.is_file() else _compiler("javac", "a JDK 17 or later")
    build = _emptied(folder / "build")
    library = build / "lib"
    library.mkdir()
    for jar in jar_paths(BROKER):
        if _CLIENT_JARS.match(jar.name):
            (library / jar.name).symlink_to(jar)
    sources = [str(path) for path in sorted(folder.glob("*.java"))]
    release = ["--release", "17", "-d", str(build), "-cp", f"{library}/*"]
    _run([command, "-Xlint:all", *release, *sources], folder)
    return build


def build_go(folder: Path) -> Path:
    """Compile the module of ``folder`` into its ``build``. The modules are those of its go.sum.

    :raises NotReady: there is no go, or it fails.
    """
    command = [_compiler("go", "Go 1.26 or later"), "build", "-buildvcs=false", "-mod=readonly"]
    build = _emptied(folder / "build")
    command += ["-trimpath", "-o", str(build / "order-prices"), "."]
    _run(command, folder, {"GOFLAGS": "", "CGO_ENABLED": "0"})
    return build


BUILDS: Mapping[str, Callable[[Path], Path]] = {"kafka_java": build_java, "franz_go": build_go}
"""How each example is built, by its folder's name."""


def _compiler(name: str, package: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise NotReady(f"{name} is missing: install {package}; its folder must be in PATH")
    return found


def _emptied(build: Path) -> Path:
    shutil.rmtree(build, ignore_errors=True)
    build.mkdir()
    return build


def _run(command: Sequence[str], folder: Path, variables: Mapping[str, str] | None = None) -> None:
    environment = {**os.environ, **(variables or {})}
    tried = f"{command[0]} did not build {folder}"
    try:
        subprocess.run(
            command,
            cwd=folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=_BUILD_SECONDS,
            check=True,
        )
    except subprocess.TimeoutExpired as error:
        raise NotReady(f"{tried} in {_BUILD_SECONDS:.0f} s") from error
    except subprocess.CalledProcessError as error:
        tail = "\n".join(str(error.stdout).splitlines()[-_TAIL_LINES:])
        raise NotReady(f"{tried}:\n{tail}") from error


def main(arguments: Sequence[str] | None = None) -> int:
    """Build the named examples, or all."""
    parser = argparse.ArgumentParser(prog="python -m lagbench.embedded.example_consumers")
    parser.add_argument("examples", nargs="*", metavar="EXAMPLE", help=", ".join(BUILDS))
    names = parser.parse_args(arguments).examples or list(BUILDS)
    if unknown := set(names) - set(BUILDS):
        parser.error(f"no example {', '.join(unknown)}; there are {', '.join(BUILDS)}")
    code = 0
    for name in names:
        try:
            sys.stdout.write(f"{name}: built in {BUILDS[name](examples_folder() / name)}\n")
        except LagbenchError as error:
            sys.stderr.write(f"{name}: {error}\n")
            code = int(error.exit_code)
    return code


if __name__ == "__main__":
    sys.exit(main())
