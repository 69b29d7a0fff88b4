"""Defaults and rules of StatefulSets as the API server has them."""

from __future__ import annotations

from typing import Any

import pytest

from lagbench.localkube.api_error import ApiError
from lagbench.localkube.objects import copy_of
from lagbench.localkube.storage.registry import Registry
from lagbench.localkube.storage.resources import NAMESPACE, STATEFUL_SET
from lagbench.localkube.storage.store import Store

PLACE = "bench"


@pytest.fixture
def registry() -> Registry:
    """Provide an empty cluster with one namespace."""
    made = Registry(Store())
    made.create(NAMESPACE, {"metadata": {"name": PLACE}}, "")
    return made


def stateful_set(name: str = "web", **spec: Any) -> dict[str, Any]:
    """Return a StatefulSet."""
    labels = {"app": "web"}
    pod = {"containers": [{"name": "main", "command": ["x"]}]}
    template = {"metadata": {"labels": labels}, "spec": pod}
    return {
        "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": labels}, "template": template, **spec},
    }


def test_the_defaults(registry: Registry) -> None:
    """One replica, in order, rolling update of all pods, ten revisions, claims retained."""
    spec = registry.create(STATEFUL_SET, stateful_set(), PLACE)["spec"]

    assert spec["replicas"] == 1
    assert spec["podManagementPolicy"] == "OrderedReady"
    assert spec["updateStrategy"] == {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}}
    assert spec["revisionHistoryLimit"] == 10
    assert spec["persistentVolumeClaimRetentionPolicy"] == {
        "whenDeleted": "Retain",
        "whenScaled": "Retain",
    }
    assert spec["template"]["spec"]["restartPolicy"] == "Always"


def test_on_delete_gets_no_rolling_update(registry: Registry) -> None:
    """The partition is a default of the rolling update only."""
    manifest = stateful_set(updateStrategy={"type": "OnDelete"})

    spec = registry.create(STATEFUL_SET, manifest, PLACE)["spec"]

    assert spec["updateStrategy"] == {"type": "OnDelete"}


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"podManagementPolicy": "Fast"}, "spec.podManagementPolicy"),
        ({"updateStrategy": {"type": "Recreate"}}, "spec.updateStrategy"),
        (
            {"updateStrategy": {"type": "OnDelete", "rollingUpdate": {}}},
            "spec.updateStrategy.rollingUpdate",
        ),
        (
            {"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": -1}}},
            "spec.updateStrategy.rollingUpdate.partition",
        ),
        ({"replicas": -1}, "spec.replicas"),
        ({"minReadySeconds": -1}, "spec.minReadySeconds"),
        ({"ordinals": {"start": -1}}, "spec.ordinals.start"),
        ({"serviceName": "Web!"}, "spec.serviceName"),
        ({"selector": None}, "spec.selector"),
        ({"selector": {}}, "spec.selector"),
        ({"selector": {"matchLabels": {"app": "other"}}}, "spec.template.metadata.labels"),
        ({"volumeClaimTemplates": [{}]}, "spec.volumeClaimTemplates"),
    ],
)
def test_a_broken_rule_is_refused_by_its_field(
    registry: Registry, spec: dict[str, Any], field: str
) -> None:
    """The 422 names the field."""
    with pytest.raises(ApiError) as refused:
        registry.create(STATEFUL_SET, stateful_set(**spec), PLACE)

    assert refused.value.code == 422
    assert [cause["field"] for cause in refused.value.causes] == [field]


def test_a_name_must_fit_a_host_name(registry: Registry) -> None:
    """A name with a dot, which a Deployment may have, is refused."""
    with pytest.raises(ApiError) as refused:
        registry.create(STATEFUL_SET, stateful_set("a.b"), PLACE)

    assert [cause["field"] for cause in refused.value.causes] == ["metadata.name"]


@pytest.mark.parametrize(
    ("field", "value"), [("serviceName", "other"), ("podManagementPolicy", "Parallel")]
)
def test_most_fields_cannot_change(registry: Registry, field: str, value: str) -> None:
    """A change of another field than the seven that may change is forbidden."""
    changed = copy_of(registry.create(STATEFUL_SET, stateful_set(), PLACE))
    changed["spec"][field] = value

    with pytest.raises(ApiError) as refused:
        registry.update(STATEFUL_SET, changed)

    assert (refused.value.code, [cause["field"] for cause in refused.value.causes]) == (
        422,
        ["spec"],
    )


def test_replicas_and_template_may_change(registry: Registry) -> None:
    """They are among the seven, and a change is a new generation."""
    changed = copy_of(registry.create(STATEFUL_SET, stateful_set(), PLACE))
    changed["spec"]["replicas"] = 3
    changed["spec"]["template"]["metadata"]["annotations"] = {"a": "1"}

    assert registry.update(STATEFUL_SET, changed)["metadata"]["generation"] == 2
