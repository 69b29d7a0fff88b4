"""A policy as production has it: names, targets and files of its own."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from lagbench.catalog.catalog import LEFT_OUT, checked_cell, load_policy, read_objects
from lagbench.core.policy.review.policy_file import review_documents
from lagbench.core.scenario.conf_limits import ConfLimits
from lagbench.errors import WrongInput


def lag(**metadata: str) -> dict[str, Any]:
    """Return a kafka trigger."""
    own = {"bootstrapServers": "kafka.shop:9092", "topic": "orders", "consumerGroup": "orders"}
    return {"type": "kafka", "metadata": {**own, "lagThreshold": "500", **metadata}}


def production(folder: Path, *triggers: dict[str, Any], **target: str) -> Path:
    """Write a ScaledObject of the shop."""
    path = folder / "orders-so.yaml"
    spec = {
        "scaleTargetRef": {"name": "orders", **target},
        "maxReplicaCount": 4,
        "triggers": list(triggers) or [lag()],
    }
    metadata = {"name": "orders", "namespace": "shop"}
    made = {"apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject", "metadata": metadata}
    path.write_text(yaml.safe_dump({**made, "spec": spec}))
    return path


def mine(folder: Path, **fields: Any) -> Path:
    """Write a scenario into a folder."""
    steady = {"kind": "steady", "rate_per_second": 10, "duration_seconds": 30}
    made = {"name": "mine", "description": "mine", "partitions": 4, "profile": steady}
    path = folder / "mine.yaml"
    path.write_text(yaml.safe_dump({**made, **fields}))
    return path


def test_topics_of_the_lag_scaler_count_too(tmp_path: Path) -> None:
    """It reads Kafka, and the run would set its topic, too."""
    address = {"scalerAddress": "lagbench-lag-scaler.lagbench:6000"}
    of_scaler = {"type": "external", "metadata": {**lag(topic="other")["metadata"], **address}}

    with pytest.raises(WrongInput) as refused:
        checked_cell("hello", policy=str(production(tmp_path, lag(), of_scaler)))

    assert refused.value.value == "orders, other"


@pytest.mark.parametrize("field", ["topic", "consumerGroup"])
def test_several_topics_or_groups_are_refused_by_name(tmp_path: Path, field: str) -> None:
    """A run would silently read the same lag for each."""
    with pytest.raises(WrongInput) as refused:
        checked_cell("hello", policy=str(production(tmp_path, lag(), lag(**{field: "other"}))))

    assert refused.value.field.endswith(field)
    assert refused.value.value == "orders, other"


def test_policies_of_a_scenario_may_be_files_beside_it(tmp_path: Path) -> None:
    """Its own, a swap's and the second group's; the run folder's scenario names its copies."""
    production(tmp_path)
    second = {"policy": "orders-so.yaml", "consumer": {}, "slos": {}}
    swap = {"kind": "swap_policy", "at_seconds": 5, "policy": "./orders-so.yaml"}

    cell = checked_cell(
        mine(tmp_path, policy="orders-so.yaml", actions=[swap], second_group=second)
    )

    assert [name for name, _ in cell.policies] == ["orders-so"] * 3
    effective = yaml.safe_load(cell.scenario_text)
    assert effective["policy"] == "policy.yaml"
    assert effective["actions"][0]["policy"] == "policy-0.yaml"
    assert effective["second_group"]["policy"] == "second_group/policy.yaml"


def test_a_conf_of_a_dag_names_no_policy_by_path_through_a_scenario(tmp_path: Path) -> None:
    """What the conf itself may not name, its settings may not either."""
    path = production(tmp_path)

    with pytest.raises(WrongInput) as refused:
        checked_cell("hello", overrides={"policy": str(path)}, limits=ConfLimits({}))

    assert refused.value.where == "conf"


BESIDE = "apiVersion: v1\nkind: Secret\nmetadata: {name: kafka}\nstringData: {sasl: plaintext}\n"
LOGIN = "apiVersion: keda.sh/v1alpha1\nkind: TriggerAuthentication\nmetadata: {name: kafka}\n"


def _list(policy: dict[str, Any], kind: str = "List") -> str:
    return yaml.safe_dump({"apiVersion": "v1", "kind": kind, "items": [policy]})


@pytest.mark.parametrize(
    "written",
    [
        lambda policy: f"---\n# Source: shop/templates/so.yaml\n{yaml.safe_dump(policy)}",
        lambda policy: f"\ufeff---\n{yaml.safe_dump(policy)}".replace("\n", "\r\n"),
        lambda policy: f"---\n---\n# nothing\n---\n{yaml.safe_dump(policy)}...\n---\n",
        lambda policy: f"{LOGIN}---\n{BESIDE}---\n{yaml.safe_dump(policy)}",
        _list,
        lambda policy: _list({**policy, "kind": None}, "ScaledObjectList").replace(
            "kind: null", ""
        ),
        lambda policy: _list(yaml.safe_load(_list(policy))),
        json.dumps,
        lambda policy: f"{json.dumps(policy, indent=2)}\n{json.dumps(yaml.safe_load(BESIDE))}\n",
        lambda policy: yaml.safe_dump(
            policy | {"metadata": policy["metadata"] | {"labels": None, "creationTimestamp": None}}
        ),
    ],
    ids=[
        "helm",
        "windows",
        "empty",
        "beside",
        "list",
        "of-kind",
        "nested",
        "json",
        "jsons",
        "null",
    ],
)
def test_a_file_is_read_as_kubectl_reads_it(tmp_path: Path, written: Any) -> None:
    """One policy, whatever stands around it."""
    path = production(tmp_path)
    expected = load_policy(path).spec
    path.write_bytes(written(yaml.safe_load(path.read_text())).encode())

    assert load_policy(path).spec == expected
    assert review_documents(read_objects([str(path)])[1], where="f").policies[0].is_accepted


@pytest.mark.parametrize(
    ("names", "value"),
    [
        (("orders", "pay"), "ScaledObject orders, ScaledObject pay"),
        ((), "nothing"),
        ((None,), "Secret kafka"),
    ],
)
def test_a_file_without_one_policy_is_refused_by_name(
    tmp_path: Path, names: tuple[str | None, ...], value: str
) -> None:
    """Of several none is chosen silently."""
    path = production(tmp_path)
    one = path.read_text()
    texts = [
        BESIDE if name is None else one.replace("name: orders", f"name: {name}") for name in names
    ]
    path.write_text("# shop\n---\n" + "---\n".join(texts))

    with pytest.raises(WrongInput) as refused:
        load_policy(path)

    assert (refused.value.field, refused.value.value) == ("documents", value)


def test_an_exported_policy_is_rehearsed_as_it_was_written(tmp_path: Path) -> None:
    """What the cluster wrote, and what waits there, is left out; the run folder names it."""
    path = production(tmp_path)
    written = yaml.safe_load(path.read_text())
    last = "kubectl.kubernetes.io/last-applied-configuration"
    of_cluster = {
        "annotations": {last: "{}", "team": "shop"},
        "finalizers": ["finalizer.keda.sh"],
        "resourceVersion": "7",
        "uid": "u",
        "managedFields": [{"manager": "kubectl"}],
    }
    metadata = {**written["metadata"], **of_cluster}
    path.write_text(yaml.safe_dump({**written, "metadata": metadata, "status": {"x": 1}}))

    cell = checked_cell(mine(tmp_path, policy="orders-so.yaml"))

    kept = {**written["metadata"], "annotations": {"team": "shop"}}
    assert cell.policy.manifest["metadata"] == kept
    assert yaml.safe_load(cell.policy_text) == cell.policy.manifest
    word = cell.policy_text.splitlines()[0]
    gone = ("status", "metadata.uid", "metadata.resourceVersion", "metadata.finalizers", last)
    assert word.startswith(LEFT_OUT)
    assert all(name in word for name in gone)


@pytest.mark.parametrize("field", ["policy", "actions", "second_group"])
def test_a_file_of_the_catalog_may_name_a_policy_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, field: str
) -> None:
    """The deployer wrote both. The same path in a conf, or in a file that a conf names, is none."""
    policy = str(production(tmp_path))
    own: dict[str, Any] = {
        "policy": policy,
        "actions": [{"kind": "swap_policy", "at_seconds": 5, "policy": policy}],
        "second_group": {"policy": policy, "consumer": {}, "slos": {}},
    }
    scenarios = tmp_path / "catalog" / "scenarios"
    scenarios.mkdir(parents=True)
    monkeypatch.setenv("LAGBENCH_CATALOG", str(tmp_path / "catalog"))
    mine(tmp_path, policy="lag-hello").rename(scenarios / "plain.yaml")
    stranger = mine(tmp_path, **{"policy": "lag-hello", field: own[field]})
    (scenarios / "mine.yaml").write_bytes(stranger.read_bytes())
    limits = ConfLimits({})

    assert "orders-so" in [name for name, _ in checked_cell("mine", limits=limits).policies]
    for scenario, overrides in (
        ("plain", {field: yaml.safe_dump(own[field], default_flow_style=True)}),
        (str(stranger), {}),
        ("mine", {field: yaml.safe_dump(own[field]).replace("orders-so", "other-so")}),
    ):
        with pytest.raises(WrongInput) as refused:
            checked_cell(scenario, overrides=overrides, limits=limits)
        assert refused.value.where == "conf"
