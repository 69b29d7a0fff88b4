"""Cells whose policy has cron windows in the stream: what excludes them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.unit.catalog.test_catalog import scenario_file

from lagbench.catalog.catalog import checked_cell, load_policy
from lagbench.catalog.catalog_files import POLICIES_VARIABLE, list_policies, policies_folder
from lagbench.core.policy.stream_windows import WINDOWS_ANNOTATION
from lagbench.errors import WrongInput


@pytest.fixture
def placed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Provide policies of which ``cron-placed`` has a window in the stream."""
    known = policies_folder()
    for name in ("lag-quick", "cron-prewarm-plus-lag"):
        manifest = yaml.safe_load((known / f"{name}.yaml").read_text(encoding="utf-8"))
        (tmp_path / f"{name}.yaml").write_text(yaml.safe_dump(manifest), encoding="utf-8")
    manifest["metadata"]["annotations"] = {WINDOWS_ANNOTATION: "60-180"}
    (tmp_path / "cron-placed.yaml").write_text(yaml.safe_dump(manifest), encoding="utf-8")
    monkeypatch.setenv(POLICIES_VARIABLE, str(tmp_path))
    return tmp_path


def test_a_fixed_phase_and_cron_windows_exclude_each_other(placed: Path, tmp_path: Path) -> None:
    """Both fix the start of the stream."""
    path = scenario_file(tmp_path, partitions=12, hpa_sync_at_seconds=3.0)

    assert checked_cell(path, policy="cron-prewarm-plus-lag").policy_name == "cron-prewarm-plus-lag"
    with pytest.raises(WrongInput) as caught:
        checked_cell(path, policy="cron-placed")
    assert (caught.value.field, caught.value.value) == ("hpa_sync_at_seconds", 3.0)


def test_a_swap_to_a_policy_with_cron_windows_is_rejected(placed: Path, tmp_path: Path) -> None:
    """Only the windows of the first policy are placed in the stream."""

    def scenario(policy: str) -> Path:
        swap = {"kind": "swap_policy", "at_seconds": 1, "policy": policy}
        return scenario_file(tmp_path, partitions=12, actions=[swap])

    assert (
        checked_cell(scenario("cron-prewarm-plus-lag")).swapped[0].name == "cron-prewarm-plus-lag"
    )
    with pytest.raises(WrongInput) as caught:
        checked_cell(scenario("cron-placed"))
    assert (caught.value.field, caught.value.value) == ("actions.0.policy", "cron-placed")


def test_windows_of_both_groups_need_one_start(placed: Path, tmp_path: Path) -> None:
    """Edges half a minute apart cannot both be on whole minutes; whole minutes apart they can."""
    path = placed / "cron-placed.yaml"
    manifest = yaml.safe_load(path.read_text(encoding="utf-8"))
    for name, window in (("late", "90-210"), ("later", "120-240")):
        manifest["metadata"]["annotations"] = {WINDOWS_ANNOTATION: window}
        (placed / f"cron-{name}.yaml").write_text(yaml.safe_dump(manifest), encoding="utf-8")

    def scenario(policy: str) -> Path:
        return scenario_file(tmp_path, partitions=12, second_group={"policy": policy})

    later = checked_cell(scenario("cron-later"), policy="cron-placed")
    assert later.second is not None
    assert later.second.policy_name == "cron-later"
    with pytest.raises(WrongInput, match="whole minutes") as caught:
        checked_cell(scenario("cron-late"), policy="cron-placed")
    assert caught.value.value == "90-210"


ALL_POLICIES = sorted(policies_folder().rglob("*.yaml"))


def policy_like(name: str, **spec: Any) -> dict[str, Any]:
    """Return a policy of the catalog with fields of its spec replaced; None removes one."""
    manifest = load_policy(name).manifest
    changed = {**manifest["spec"], **spec}
    kept = {key: value for key, value in changed.items() if value is not None}
    return {**manifest, "spec": kept}


def policy_refusal(folder: Path, manifest: dict[str, Any]) -> WrongInput:
    """Write a policy and return the refusal of it."""
    path = folder / "mine-policy.yaml"
    path.write_text(yaml.safe_dump(manifest), encoding="utf-8")
    with pytest.raises(WrongInput) as caught:
        load_policy(path)
    assert caught.value.where == str(path)
    return caught.value


def test_no_two_policies_are_the_same() -> None:
    """Each file asks for something that no other one asks for."""
    policies = [load_policy(path) for path in ALL_POLICIES]
    specs = [f"{policy.manifest['spec']} {policy.limits.flags}" for policy in policies]

    assert len(set(specs)) == len(specs)


def test_policies_of_the_experiments_are_found_and_not_listed() -> None:
    """They are none for production: a form and an error message do not offer them."""
    names = [path.stem for path in ALL_POLICIES]

    assert len(set(names)) == len(names)
    assert set(names) - set(list_policies()) == {n for n in names if n.startswith("lab-")}
    assert load_policy("lab-lag").limits.ceiling_replicas == 12


@pytest.mark.parametrize("path", ALL_POLICIES, ids=lambda path: path.stem)
def test_every_policy_is_a_complete_manifest_of_one_name(path: Path) -> None:
    """Each policy passes KEDA's checks and all share name and namespace."""
    manifest = load_policy(path).manifest

    metadata = manifest["metadata"]
    assert (metadata["name"], metadata["namespace"]) == ("consumer", "lagbench")
    assert manifest["spec"]["scaleTargetRef"]["name"] == "consumer"


def test_a_field_that_keda_would_refuse_is_refused(tmp_path: Path) -> None:
    """The article's minReplicas is no field of a ScaledObject; the right name is suggested."""
    found = policy_refusal(tmp_path, policy_like("lag-quick", minReplicas=3))

    assert (found.field, found.value) == ("spec.minReplicas", 3)
    assert "minReplicaCount" in found.allowed


def test_keda_names_in_an_hpa_are_refused(tmp_path: Path) -> None:
    """An HPA has minReplicas, not minReplicaCount."""
    found = policy_refusal(tmp_path, policy_like("cpu-only", minReplicaCount=3))

    assert found.field == "spec.minReplicaCount"
    assert "minReplicas" in found.allowed


@pytest.mark.parametrize(
    ("name", "spec", "field"),
    [
        ("lag-quick", {"minReplicaCount": 13}, "spec.minReplicaCount"),
        ("cpu-only", {"minReplicas": 13}, "spec.maxReplicas"),
        ("lag-quick", {"scaleTargetRef": {"name": "other"}}, "spec.scaleTargetRef"),
        ("cpu-only", {"metrics": [{"type": "Pods"}]}, "spec.metrics[0].type"),
        (
            "lag-quick",
            {"triggers": [{"type": "rabbitmq", "metadata": {}}]},
            "spec.triggers[0].type",
        ),
        ("lag-quick", {"triggers": []}, "spec.triggers"),
    ],
)
def test_a_policy_that_cannot_work_is_refused(
    tmp_path: Path, name: str, spec: dict[str, Any], field: str
) -> None:
    """Minimum above maximum, another target, an unsupported trigger or metric are named."""
    assert policy_refusal(tmp_path, policy_like(name, **spec)).field == field


def test_another_kind_is_no_policy(tmp_path: Path) -> None:
    """Only a ScaledObject or an HPA is a policy."""
    found = policy_refusal(tmp_path, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {}})

    assert (found.field, found.value) == ("kind", "ConfigMap")
