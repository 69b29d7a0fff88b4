"""A key that the settings of a cluster leave out stands for what the committed manifests say."""

from __future__ import annotations

from typing import Any

import yaml
from tests.unit.k8s.base_pods import K8S, pod_spec, workloads

CONTEXT = K8S / "overlays/context"


def read(folder: str) -> dict[str, Any]:
    """Return the kustomization of a folder below the overlay."""
    found: dict[str, Any] = yaml.safe_load((CONTEXT / folder / "kustomization.yaml").read_text())
    return found


def left_out() -> dict[str, str]:
    """Return the values of keys that the settings file does not have."""
    (generator,) = read("settings/left-out")["configMapGenerator"]
    return dict(literal.split("=", 1) for literal in generator["literals"])


def test_no_replacement_needs_a_key_of_the_file() -> None:
    """Kustomize rejects a replacement whose source is not there."""
    sources = [
        replacement["source"]
        for part in ("", "workloads")
        for replacement in read(part).get("replacements", [])
        if replacement["source"]["kind"] == "ConfigMap"
    ]

    (generator,) = read("settings")["configMapGenerator"]

    assert {source["fieldPath"].removeprefix("data.") for source in sources} == left_out().keys()
    assert generator["behavior"] == "merge"


def test_what_is_left_out_is_as_the_base_has_it() -> None:
    """Image and brokers are those of the consumers that a run makes without settings."""
    container = pod_spec(workloads()["Deployment/consumer"])["containers"][0]
    environment = {entry["name"]: entry.get("value") for entry in container["env"]}

    assert left_out() == {
        "IMAGE": container["image"],
        "KAFKA_BOOTSTRAP_SERVERS": environment["KAFKA_BOOTSTRAP_SERVERS"],
    }


def test_the_overlay_makes_no_claim() -> None:
    """Its class may be any, the default or none: the run that needs it makes it accordingly."""
    assert read("")["resources"] == ["../../base/namespace", "../../base/runner"]


def test_the_overlay_has_no_object_of_the_whole_cluster_but_the_namespace() -> None:
    """An object of the cluster has one name: a second namespace would take it from the first."""
    folders = [CONTEXT / resource for resource in read("")["resources"]]
    objects = [
        found
        for folder in folders
        for file in yaml.safe_load((folder / "kustomization.yaml").read_text())["resources"]
        for found in yaml.safe_load_all((folder / file).read_text())
    ]

    assert {o["kind"] for o in objects if "namespace" not in o["metadata"]} == {"Namespace"}


def test_the_own_controllers_image_can_be_named() -> None:
    """A cluster of yours takes it from a registry of yours, as all others."""
    path = K8S / "base/autoscaler-instead-of-keda/kustomization.yaml"
    (image,) = yaml.safe_load(path.read_text())["images"]

    container = pod_spec(workloads()["Deployment/lagbench-autoscaler"])["containers"][0]

    assert f"{image['name']}:{image['newTag']}" == container["image"]
    assert f"{image['newName']}:{image['newTag']}" == container["image"]
