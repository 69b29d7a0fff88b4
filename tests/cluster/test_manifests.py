"""The manifests as kubectl renders them, against a real API server with KEDA's definitions."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from lagbench.project import PROJECT_ROOT
from tests.cluster.cluster_rehearsal import asked
from tests.cluster.rig.rig import Rig

K8S = PROJECT_ROOT / "k8s"
OVERLAYS = ["kind", "ci", "context"]
COMPONENTS = sorted(path.name for path in (K8S / "components").iterdir())
NAMESPACE = "lagbench"


@pytest.fixture(scope="module")
def cluster(rig: Rig) -> Iterator[Rig]:
    """Provide the rig with the namespace and, for the module, what dry runs cannot stand on.

    A pod is rejected without its account, and a binding without its role.
    """
    for folder in ("namespace", "runner"):
        kubectl(rig, "apply", "--server-side", "-k", str(K8S / "base" / folder))
    stands = {item["metadata"]["name"] for item in render(rig, K8S / "base" / "runner")}
    lent = yaml.safe_dump_all(
        item
        for overlay in ("kind", "kind/workloads")
        for item in render(rig, K8S / "overlays" / overlay)
        if item["kind"] in ("ServiceAccount", "Role") and item["metadata"]["name"] not in stands
    )
    kubectl(rig, "apply", "--server-side", "-f", "-", given=lent)
    yield rig
    kubectl(rig, "delete", "-f", "-", given=lent)  # or the next run finds what no run made


@pytest.mark.parametrize("part", ["", "workloads"])
@pytest.mark.parametrize("overlay", OVERLAYS)
def test_an_overlay_passes_strict_validation(cluster: Rig, overlay: str, part: str) -> None:
    """The API server takes every object, knows every field, and warns of nothing."""
    rendered = render(cluster, K8S / "overlays" / overlay / part)

    done = dry_run(cluster, rendered)

    assert len(done.stdout.splitlines()) == len(rendered)
    assert "Warning" not in done.stderr


@pytest.mark.parametrize("component", COMPONENTS)
def test_a_component_renders_with_the_workloads(
    cluster: Rig, component: str, tmp_path: Path
) -> None:
    """The output of kubectl is the same as in the unit tests; the API server accepts it."""
    base = render(cluster, K8S / "overlays/kind/workloads")
    variant = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": [os.path.relpath(K8S / "overlays/kind/workloads", tmp_path)],
        "components": [os.path.relpath(K8S / "components" / component, tmp_path)],
    }
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump(variant))

    rendered = render(cluster, tmp_path)

    changed = [item for item in rendered if item not in base]
    is_default = component == "cooperative-sticky"
    assert [item["metadata"]["name"] for item in changed] == ([] if is_default else ["consumer"])
    dry_run(cluster, rendered)


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_the_namespace_admits_every_pod(cluster: Rig, overlay: str) -> None:
    """Pods of every template pass the restricted profile, which the namespace enforces."""
    pods = [
        _pod(item)
        for part in ("", "workloads")
        for item in render(cluster, K8S / "overlays" / overlay / part)
        if "template" in (item.get("spec") or {})
    ]

    done = dry_run(cluster, pods)

    assert len(done.stdout.splitlines()) == len(pods) > 0


def test_another_namespace_is_one_line_in_each_file(cluster: Rig, tmp_path: Path) -> None:
    """With `namespace` changed no object, subject or right names the old one."""
    shutil.copytree(K8S, tmp_path / "k8s")
    for part in ("", "workloads"):
        path = tmp_path / "k8s/overlays/context" / part / "kustomization.yaml"
        path.write_text(path.read_text().replace("namespace: lagbench", "namespace: spikes"))

    rendered = [
        item
        for part in ("", "workloads")
        for item in render(cluster, tmp_path / "k8s/overlays/context" / part)
    ]

    namespaces = {item["metadata"].get("namespace") for item in rendered}
    assert namespaces == {"spikes", None}
    unscoped = {i["kind"] for i in rendered if "namespace" not in i["metadata"]}
    assert unscoped == {"Namespace"}
    subjects = [s["namespace"] for item in rendered for s in item.get("subjects", [])]
    assert set(subjects) == {"spikes"}


def test_the_runners_kubeconfig_can_run_a_cell_and_no_more(cluster: Rig, tmp_path: Path) -> None:
    """The script's file applies workloads and a policy, and may not look beyond its namespace."""
    file = tmp_path / "runner.kubeconfig"
    asked(cluster, [str(K8S / "runner-kubeconfig.sh"), "rig", NAMESPACE, str(file)])
    as_runner = ["--kubeconfig", str(file)]
    wanted = render(cluster, K8S / "overlays/kind/workloads")
    claims = [item for item in wanted if item["kind"] == "PersistentVolumeClaim"]
    for claim in claims:  # a run creates them once and leaves them alone
        wanted.remove(claim)
        claim["metadata"]["name"] += "-dry"
    policy = yaml.safe_load((K8S / "policies/lag-default.yaml").read_text())

    done = dry_run(cluster, [*wanted, policy], *as_runner)
    text = yaml.safe_dump_all(claims)
    made = kubectl(cluster, "create", "--dry-run=server", "-f", "-", *as_runner, given=text)

    assert len(done.stdout.splitlines()) == len(wanted) + 1
    assert len(made.stdout.splitlines()) == len(claims) > 0
    assert file.stat().st_mode & 0o077 == 0
    for verb, resource, where in (
        ("list", "pods", "kube-system"),
        ("list", "namespaces", ""),
        ("get", "secrets", NAMESPACE),
        ("create", "pods/exec", NAMESPACE),
        ("delete", "namespaces/lagbench", ""),
        ("patch", "namespaces/lagbench", ""),
    ):
        scope = ["-n", where] if where else ["--all-namespaces"]
        answer = kubectl(cluster, "auth", "can-i", verb, resource, *scope, *as_runner, code=1)
        assert answer.stdout.strip() == "no", (verb, resource)


def render(rig: Rig, folder: Path) -> list[dict[str, Any]]:
    """Return the objects that kubectl makes of a folder."""
    text = kubectl(rig, "kustomize", str(folder)).stdout
    return [item for item in yaml.safe_load_all(text) if item]


def dry_run(
    rig: Rig, objects: list[dict[str, Any]], *more: str
) -> subprocess.CompletedProcess[str]:
    """Let the API server do all but store ``objects``."""
    how = ["--server-side", "--dry-run=server", "--validate=strict", *more]
    return kubectl(rig, "apply", *how, "-f", "-", given=yaml.safe_dump_all(objects))


def kubectl(
    rig: Rig, *arguments: str, given: str = "", code: int = 0
) -> subprocess.CompletedProcess[str]:
    """Run the kubectl that was built with the cluster."""
    return asked(rig, [rig.kubectl, *arguments], given=given, code=code)


def _pod(workload: dict[str, Any]) -> dict[str, Any]:
    """Return a pod of the workload's template; a claim of a StatefulSet stands for itself."""
    spec = json.loads(json.dumps(workload["spec"]["template"]["spec"]))
    for claim in workload["spec"].get("volumeClaimTemplates", []):
        name = claim["metadata"]["name"]
        spec["volumes"].append({"name": name, "persistentVolumeClaim": {"claimName": name}})
    metadata = {"name": f"{workload['metadata']['name']}-dry", "namespace": NAMESPACE}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
