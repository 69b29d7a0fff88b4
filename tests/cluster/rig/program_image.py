"""The image of lagbench's programs, made without Docker: Debian's Python, the locked libraries.

It holds what ``k8s/images/programs.Dockerfile`` puts into its image. Debian's part and the
libraries are cached; the project's own code is a small layer of its own. All of it is compiled: a
pod cannot write, so what is not would be compiled at each start.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from lagbench.project import PROJECT_ROOT
from tests.cluster.rig.images import write_image, write_layer
from tests.cluster.rig.versions import cache_folder

PROGRAMS = "docker.io/lagbench/programs:0.1.0"
PYTHON = "rig.local/python:3.11"
REQUIREMENTS = PROJECT_ROOT / "k8s" / "images" / "programs.txt"
_DEBIAN, _PYTHON = "bookworm", "3.11"
INSIDE = "opt/lagbench"
SOURCES = {
    folder: folder
    for folder in (
        *("include/lag_scaler", "include/lagbench", "include/localkube", "include/pod_program"),
    )
}
SETTINGS = {
    "Env": [
        "PATH=/usr/local/bin:/usr/bin:/bin",
        f"PYTHONPATH=/{INSIDE}/include:/{INSIDE}/libraries",
        "PYTHONUNBUFFERED=1",
        "PYTHONDONTWRITEBYTECODE=1",
    ],
    "User": "65532:65532",
    "WorkingDir": f"/{INSIDE}",
}
"""The image's config: a test holds it to the Dockerfile's."""
_STEP_LIMIT_SECONDS = 600


class ImageFailed(RuntimeError):
    """A step of making an image failed; the message ends with what it printed."""


def prepare_layers() -> None:
    """Make the layers that are cached, as far as they are not there."""
    python_image()
    libraries_layer(REQUIREMENTS)


def write_program_image(archive: Path) -> None:
    """Write the image's archive; only the code's layer is made again."""
    with tempfile.TemporaryDirectory() as folder:
        code = code_layer(Path(folder), SOURCES)
        write_image(
            archive,
            PROGRAMS,
            [_system_layer(), libraries_layer(REQUIREMENTS), code],
            settings=SETTINGS,
        )


def code_layer(folder: Path, sources: Mapping[str, str]) -> Path:
    """Write a layer of the project's code, compiled, into ``folder``; return its archive.

    :param sources: the project's folders, by their path below ``INSIDE``.
    """
    layer, places = folder / "code.tar", {}
    old = shutil.ignore_patterns("__pycache__")
    for inside, source in sources.items():
        copy = folder / inside
        shutil.copytree(PROJECT_ROOT / source, copy, ignore=old)
        _compile(copy, inside=f"/{INSIDE}/{inside}")
        places[f"{INSIDE}/{inside}"] = copy
    write_layer(layer, places)
    return layer


def python_image() -> Path:
    """Return the archive of an image with Python and nothing else, made when it is not there."""
    archive = cache_folder() / "python.tar"
    if not archive.exists():
        path = ["PATH=/usr/local/bin:/usr/bin:/bin"]
        write_image(archive, PYTHON, [_system_layer()], settings={"Env": path})
    return archive


def _system_layer() -> Path:
    return debian_layer("python", ["python3", "ca-certificates"])


def debian_layer(
    name: str, packages: Sequence[str], complete: Callable[[Path], object] | None = None
) -> Path:
    """Return a layer of Debian with ``packages``, made when it is not there.

    :param complete: adds to the root folder what no package has.
    """
    layer = cache_folder() / f"debian-{_DEBIAN}-{name}.tar"
    if not layer.exists():
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder) / "root"
            included = f"--include={','.join(packages)}"
            _run("debootstrap", "--variant=minbase", included, _DEBIAN, str(root))
            (root / "usr/local/bin/python").symlink_to("/usr/bin/python3")
            if complete is not None:
                complete(root)
            unused = ("dev", "var/cache/apt", "var/lib/apt/lists", "usr/share/doc", "usr/share/man")
            _run("rm", "-rf", *(str(root / place) for place in unused))
            partial = layer.with_suffix(".partial")
            _run("tar", "-C", str(root), "-cf", str(partial), ".")
            partial.rename(layer)
    return layer


def libraries_layer(requirements: Path) -> Path:
    """Return a layer of the locked libraries, compiled, made when it is not there."""
    key = hashlib.sha256(requirements.read_bytes()).hexdigest()[:12]
    layer = cache_folder() / f"libraries-compiled-{key}.tar"
    if not layer.exists():
        with tempfile.TemporaryDirectory() as folder:
            target = Path(folder) / "libraries"
            install = [str(Path(sys.executable).with_name("uv")), "pip", "install", "--quiet"]
            how = ["--require-hashes", "--python", sys.executable, "--python-version", _PYTHON]
            _run(*install, *how, "--target", str(target), "-r", str(requirements))
            _compile(target, inside=f"/{INSIDE}/libraries")
            partial = layer.with_suffix(".partial")
            write_layer(partial, {f"{INSIDE}/libraries": target})
            partial.rename(layer)
    return layer


def _compile(folder: Path, *, inside: str) -> None:
    """Compile a folder for where it will lie; only the image's own Python can read the result."""
    if sys.version_info[:2] == tuple(int(part) for part in _PYTHON.split(".")):
        # Unchecked: nothing in an image changes, so its sources need not be looked at.
        how = ["-q", "-j", "0", "--invalidation-mode", "unchecked-hash"]
        paths = ["-s", str(folder), "-p", inside, str(folder)]
        _run(sys.executable, "-m", "compileall", *how, *paths)


def _run(*command: str) -> None:
    done = subprocess.run(
        command, check=False, capture_output=True, text=True, timeout=_STEP_LIMIT_SECONDS
    )
    if done.returncode != 0:
        tail = (done.stdout + done.stderr)[-1500:]
        raise ImageFailed(f"{command[0]} failed with exit code {done.returncode}:\n{tail}")
