"""Container images without a registry: archives that containerd imports."""

from __future__ import annotations

import hashlib
import io
import json
import subprocess
import tarfile
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

PAUSE = "rig.local/pause:1"
# The sandbox of a pod only has to be there, and to end when asked.
_PAUSE_SOURCE = """
#include <signal.h>
#include <unistd.h>
static void leave(int signal_number) { (void)signal_number; _exit(0); }
int main(void) { signal(SIGTERM, leave); signal(SIGINT, leave); for (;;) pause(); }
"""


def write_image(
    archive: Path, name: str, layers: Sequence[Path], *, settings: Mapping[str, object]
) -> None:
    """Write an image of layer archives, the lowest first.

    ``settings`` is the image's config: Entrypoint, Env, User, WorkingDir.
    """
    digests = [_digest(layer) for layer in layers]
    config = json.dumps(
        {
            "architecture": "amd64",
            "os": "linux",
            "config": dict(settings),
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}" for digest in digests]},
        }
    ).encode()
    config_name = f"{hashlib.sha256(config).hexdigest()}.json"
    places = [f"{digest}/layer.tar" for digest in digests]
    entry = {"Config": config_name, "RepoTags": [name], "Layers": places}
    with tarfile.open(archive, "w") as image:
        _add(image, config_name, config)
        for layer, place in zip(layers, places, strict=True):
            image.add(layer, place)
        _add(image, "manifest.json", json.dumps([entry]).encode())


def write_pause_image(archive: Path) -> None:
    """Compile and write the pods' sandbox image."""
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "pause"
        subprocess.run(
            ["gcc", "-x", "c", "-", "-static", "-Os", "-s", "-o", str(program)],
            input=_PAUSE_SOURCE.encode(),
            check=True,
            capture_output=True,
            timeout=300,
        )
        layer = Path(folder) / "layer.tar"
        write_layer(layer, {"pause": program})
        write_image(archive, PAUSE, [layer], settings={"Entrypoint": ["/pause"]})


def write_layer(path: Path, files: Mapping[str, Path]) -> None:
    """Write a layer of files and folders by their path inside, owned by root."""
    with tarfile.open(path, "w") as layer:
        for inside, source in files.items():
            layer.add(source, inside, filter=_owned_by_root)


def _owned_by_root(item: tarfile.TarInfo) -> tarfile.TarInfo:
    item.uid = item.gid = 0
    # Pods run as another user, whatever the umask was when the files were written.
    item.mode |= 0o555 if item.isdir() or item.mode & 0o100 else 0o444
    return item


def _digest(path: Path) -> str:
    with path.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def _add(image: tarfile.TarFile, name: str, content: bytes) -> None:
    item = tarfile.TarInfo(name)
    item.size = len(content)
    image.addfile(item, io.BytesIO(content))
