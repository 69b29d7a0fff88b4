"""Build Kubernetes, etcd and KEDA from their Go modules: no Docker, no image registry.

``python -m tests.cluster.rig.binaries`` builds what is missing, about ten minutes on two cores
the first time; afterwards nothing is done.
"""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.cluster.rig.go_command import BuildFailed, go, module_folder
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
    "keda-operator": "./cmd/operator",
    "keda-adapter": "./cmd/adapter",
    "keda-webhooks": "./cmd/webhooks",
}
ETCD = "go.etcd.io/etcd/server/v3"
METRICS_SERVER = "sigs.k8s.io/metrics-server/cmd/metrics-server"
Say = Callable[[str], object]


@dataclass(frozen=True, slots=True)
class Binaries:
    """The paths of the programs and of KEDA's manifests."""

    folder: Path
    crds: Path  # KEDA's CustomResourceDefinitions
    webhook_manifests: Path

    def path(self, program: str) -> str:
        """Return a program's path."""
        return str(self.folder / program)


@dataclass(frozen=True, slots=True)
class _Builder:
    """Builds programs into a folder, those of a module together.

    One go command reads the module once and links one program while it compiles the next.
    """

    folder: Path
    say: Say

    def missing(self, packages: Mapping[str, str]) -> dict[str, str]:
        """Return the packages of the programs that are not there."""
        return {n: package for n, package in packages.items() if not (self.folder / n).exists()}

    def build(
        self, module: Path, packages: Mapping[str, str], *, flags: str = "", mode: str = "mod"
    ) -> None:
        """Build ``packages``, by the names that the programs get."""
        began = time.monotonic()
        linker = f"-ldflags=-s -w {flags}".strip()
        with tempfile.TemporaryDirectory(dir=self.folder) as made:
            how = [f"-mod={mode}", "-trimpath", linker, "-o", f"{made}/"]
            go(["build", *how, *packages.values()], module)
            for name, package in packages.items():
                (Path(made) / _go_name(package)).rename(self.folder / name)
        self.say(f"built {', '.join(packages)} in {time.monotonic() - began:.0f} s")


def _go_name(package: str) -> str:
    """Return how go names a package's program: the last part that is no major version."""
    parts = package.split("/")
    return parts[-2] if re.fullmatch(r"v\d+", parts[-1]) else parts[-1]


def build_all(say: Say) -> Binaries:
    """Build what is missing and return the folder."""
    versions, cache = pinned(), cache_folder()
    programs, sources = cache / "bin", cache / "src"
    programs.mkdir(parents=True, exist_ok=True)
    builder = _Builder(programs, say)
    commands = {name: f"k8s.io/kubernetes/cmd/{name}" for name in KUBERNETES_PROGRAMS}
    if missing := builder.missing(commands):
        wrapper = kubernetes_wrapper(versions, sources / "kubernetes")
        builder.build(wrapper, missing, flags=_kubernetes_flags(versions))
    if missing := builder.missing({"etcd": ETCD}):
        wrapper = _plain_wrapper(ETCD, versions.etcd, sources / "etcd")
        builder.build(wrapper, missing)
    if missing := builder.missing({"metrics-server": METRICS_SERVER}):
        module = "sigs.k8s.io/metrics-server"
        wrapper = _plain_wrapper(
            module, versions.metrics_server, sources / "metrics-server", package=METRICS_SERVER
        )
        builder.build(wrapper, missing)
    keda = module_folder("github.com/kedacore/keda/v2", versions.keda)
    if missing := builder.missing(KEDA_PROGRAMS):
        # Its one `replace` names a version, so it builds where the module cache has it.
        version = f"-X github.com/kedacore/keda/v2/version.Version={versions.keda}"
        builder.build(keda, missing, flags=version, mode="readonly")
    return Binaries(programs, keda / "config" / "crd" / "bases", keda / "config" / "webhooks")


def kubernetes_wrapper(versions: Versions, folder: Path) -> Path:
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
    go(["mod", "edit", f"-require=k8s.io/kubernetes@v{versions.kubernetes}"], folder)
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


if __name__ == "__main__":
    try:
        build_all(lambda line: sys.stdout.write(line + "\n"))
    except BuildFailed as error:
        sys.exit(f"the rig could not be built: {error}")
