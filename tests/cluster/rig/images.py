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
    archive: Path,
    name: str,
    *,
    files: Mapping[str, Path] | None = None,
    layer: Path | None = None,
    settings: Mapping[str, object],
) -> None:
    """Write an image of one layer: ``files`` by their path inside, or a finished layer tar.

    ``settings`` is the image's config: Entrypoint, Env, User, WorkingDir.
    """
    with tempfile.NamedTemporaryFile(suffix=".tar") as made:
        if layer is None:
            _write_layer(Path(made.name), files or {})
            layer = Path(made.name)
        with layer.open("rb") as content:
            digest = hashlib.file_digest(content, "sha256").hexdigest()
        config = json.dumps(
            {
                "architecture": "amd64",
                "os": "linux",
                "config": dict(settings),
                "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
            }
        ).encode()
        config_name = f"{hashlib.sha256(config).hexdigest()}.json"
        entry = {"Config": config_name, "RepoTags": [name], "Layers": [f"{digest}/layer.tar"]}
        with tarfile.open(archive, "w") as image:
            _add(image, config_name, config)
            image.add(layer, f"{digest}/layer.tar")
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
            timeout=60,
        )
        entry: Sequence[str] = ["/pause"]
        write_image(archive, PAUSE, files={"pause": program}, settings={"Entrypoint": entry})


def _write_layer(path: Path, files: Mapping[str, Path]) -> None:
    with tarfile.open(path, "w") as layer:
        for inside, source in files.items():
            layer.add(source, inside)


def _add(image: tarfile.TarFile, name: str, content: bytes) -> None:
    item = tarfile.TarInfo(name)
    item.size = len(content)
    image.addfile(item, io.BytesIO(content))
