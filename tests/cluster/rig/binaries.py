"""Build Kubernetes, etcd and KEDA from their Go modules: no Docker, no image registry.

``python -m tests.cluster.rig.binaries`` builds what is missing, about ten minutes on two cores
the first time; afterwards nothing is done.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.cluster.rig.versions import Versions, cache_folder, pinned

KUBERNETES_PROGRAMS = (
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kubelet",
    "kube-proxy",
    "kubectl",
)
KEDA_PROGRAMS = {
    "keda-operator": "operator",
    "keda-adapter": "adapter",
    "keda-webhooks": "webhooks",
}
METRICS_SERVER = "sigs.k8s.io/metrics-server/cmd/metrics-server"
_STEP_LIMIT_SECONDS = 1800
Say = Callable[[str], object]


class BuildFailed(RuntimeError):
    """A Go build failed; the message has its last lines."""


@dataclass(frozen=True, slots=True)
class Binaries:
    """Where the programs and KEDA's manifests are."""

    folder: Path
    crds: Path  # KEDA's CustomResourceDefinitions
    webhook_manifests: Path

    def path(self, program: str) -> str:
        """Return a program's path."""
        return str(self.folder / program)


def build_all(say: Say) -> Binaries:
    """Build what is missing and return the folder."""
    versions, cache = pinned(), cache_folder()
    programs, sources = cache / "bin", cache / "src"
    programs.mkdir(parents=True, exist_ok=True)
    missing = [p for p in KUBERNETES_PROGRAMS if not (programs / p).exists()]
    if missing:
        wrapper = _kubernetes_wrapper(versions, sources / "kubernetes")
        for program in missing:
            flags = _kubernetes_flags(versions)
            _build(
                wrapper, f"k8s.io/kubernetes/cmd/{program}", programs / program, say, flags=flags
            )
    if not (programs / "etcd").exists():
        wrapper = _plain_wrapper("go.etcd.io/etcd/server/v3", versions.etcd, sources / "etcd")
        _build(wrapper, "go.etcd.io/etcd/server/v3", programs / "etcd", say)
    if not (programs / "metrics-server").exists():
        module = "sigs.k8s.io/metrics-server"
        wrapper = _plain_wrapper(
            module, versions.metrics_server, sources / "metrics-server", package=METRICS_SERVER
        )
        _build(wrapper, METRICS_SERVER, programs / "metrics-server", say)
    keda = module_folder("github.com/kedacore/keda/v2", versions.keda)
    for program, command in KEDA_PROGRAMS.items():
        if not (programs / program).exists():
            # Its one `replace` names a version, so it builds where the module cache has it.
            _build(keda, f"./cmd/{command}", programs / program, say, mode="readonly")
    return Binaries(programs, keda / "config" / "crd" / "bases", keda / "config" / "webhooks")


def module_folder(module: str, version: str) -> Path:
    """Return a module's folder in Go's cache, fetched when it is not there."""
    found = _go(["mod", "download", "-json", f"{module}@v{version}"], Path.cwd())
    return Path(json.loads(found)["Dir"])


def _kubernetes_wrapper(versions: Versions, folder: Path) -> Path:
    """Make a module that requires Kubernetes: its go.mod with released staging modules.

    Kubernetes' own go.mod replaces its parts by folders that the published module does not hold.
    """
    upstream = module_folder("k8s.io/kubernetes", versions.kubernetes)
    text = (upstream / "go.mod").read_text(encoding="utf-8")
    text = re.sub(r"^module k8s\.io/kubernetes$", "module rig", text, flags=re.MULTILINE)
    released = "v0." + versions.kubernetes.split(".", 1)[1]
    text = re.sub(r"=> \./staging/src/(k8s\.io/[a-z-]+)", rf"=> \1 {released}", text)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "go.mod").write_text(text, encoding="utf-8")
    shutil.copyfile(upstream / "go.sum", folder / "go.sum")
    _go(["mod", "edit", f"-require=k8s.io/kubernetes@v{versions.kubernetes}"], folder)
    _write_imports(folder, [f"k8s.io/kubernetes/cmd/{program}" for program in KUBERNETES_PROGRAMS])
    return folder


def _plain_wrapper(module: str, version: str, folder: Path, package: str | None = None) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "go.mod").write_text(f"module rig\n\ngo 1.24\n\nrequire {module} v{version}\n")
    _write_imports(folder, [package or module])
    return folder


def _write_imports(folder: Path, packages: Sequence[str]) -> None:
    """Import the programs under a tag that is never set, so that their needs are resolved."""
    lines = "\n".join(f'\t_ "{package}"' for package in packages)
    text = f"//go:build tools\n\npackage rig\n\nimport (\n{lines}\n)\n"
    (folder / "tools.go").write_text(text, encoding="utf-8")


def _kubernetes_flags(versions: Versions) -> str:
    major, minor, _ = versions.kubernetes.split(".")
    facts = {
        "gitVersion": f"v{versions.kubernetes}",
        "gitMajor": major,
        "gitMinor": minor,
        "gitTreeState": "clean",
    }
    return " ".join(f"-X k8s.io/component-base/version.{k}={v}" for k, v in facts.items())


def _build(
    folder: Path,
    package: str,
    output: Path,
    say: Say,
    *,
    flags: str = "",
    mode: str = "mod",
) -> None:
    began = time.monotonic()
    partial = output.with_suffix(".partial")
    linker = f"-ldflags=-s -w {flags}".strip()
    _go(["build", f"-mod={mode}", "-trimpath", linker, "-o", str(partial), package], folder)
    partial.rename(output)
    say(f"built {output.name} in {time.monotonic() - began:.0f} s")


def _go(arguments: Sequence[str], folder: Path) -> str:
    go = shutil.which("go")
    if go is None:
        raise BuildFailed("Go is not installed: apt-get install golang, or put go on the PATH")
    done = subprocess.run(
        [go, *arguments],
        cwd=folder,
        env={**os.environ, "GOFLAGS": "", "GOTOOLCHAIN": "auto"},
        capture_output=True,
        text=True,
        timeout=_STEP_LIMIT_SECONDS,
        check=False,
    )
    if done.returncode != 0:
        tail = "\n".join(done.stderr.splitlines()[-20:])
        raise BuildFailed(f"go {' '.join(arguments[:2])} in {folder.name} failed:\n{tail}")
    return done.stdout


if __name__ == "__main__":
    try:
        build_all(lambda line: sys.stdout.write(line + "\n"))
    except BuildFailed as error:
        sys.exit(f"the rig could not be built: {error}")
