"""What localkube has of lagbench: KEDA's webhook, and an environment for pods without secrets."""

from __future__ import annotations

from typing import Any

import pytest
from tests.fakes import policies
from tests.fakes.localkube_cluster import LABELS, PLACE, registry_of

from lagbench.core.scenario.run_names import POD_ORDINAL_ANNOTATION, PORT_ANNOTATION
from lagbench.embedded.localkube_with_keda import KINDS, SCALED_OBJECT, pod_environment
from localkube.kinds import DEPLOYMENT, STATEFUL_SET, Resource
from localkube.kube_objects import ORDINAL, PORT, ApiError
from localkube.storage.object_registry import Registry


def create(registry: Registry, trigger: dict[str, Any], kind: str = "Deployment") -> None:
    """Create a ScaledObject with one trigger on the workload ``web``."""
    target = {"kind": kind, "name": "web"}
    spec = {"scaleTargetRef": target, "minReplicaCount": 1, "triggers": [trigger]}
    registry.create(SCALED_OBJECT, {"metadata": {"name": "x"}, "spec": spec}, PLACE)


@pytest.mark.parametrize(
    ("trigger", "field"),
    [
        ({"type": "kafka"}, "triggers[0].metadata"),
        ({"type": "kafka", "metadata": {"lagThreshold": 5}}, "lagThreshold"),
    ],
)
def test_a_broken_rule_names_its_field(trigger: dict[str, Any], field: str) -> None:
    """What KEDA's definition rejects is a 422 whose message has the field's path."""
    with pytest.raises(ApiError) as refused:
        create(registry_of(), trigger)

    assert refused.value.code == 422
    assert field in refused.value.message


@pytest.mark.parametrize("kind", [DEPLOYMENT, STATEFUL_SET])
def test_the_requests_of_the_target_decide(kind: Resource) -> None:
    """A cpu trigger needs requests, and is refused while its workload has none or is missing."""
    registry = registry_of()
    trigger = {"type": "cpu", "metricType": "Utilization", "metadata": {"value": "50"}}

    def create_target(**resources: Any) -> None:
        container = {"name": "main", "command": ["x"], "resources": resources}
        template = {"metadata": {"labels": LABELS}, "spec": {"containers": [container]}}
        spec = {"selector": {"matchLabels": LABELS}, "template": template}
        registry.create(kind, {"metadata": {"name": "web"}, "spec": spec}, PLACE)

    with pytest.raises(ApiError, match=f'{kind.kind} "web"'):
        create(registry, trigger, kind.kind)
    create_target()
    with pytest.raises(ApiError, match="cpu request"):
        create(registry, trigger, kind.kind)
    registry.store.remove(kind, PLACE, "web")
    create_target(requests={"cpu": "100m"})
    create(registry, trigger, kind.kind)


@pytest.mark.parametrize(("version", "stored"), [("1.34", None), ("1.37", "0.05")])
def test_an_hpa_is_stored_as_the_version_does_that_it_names(
    version: str, stored: str | None
) -> None:
    """An older API server drops the tolerances; each rejects what it would reject."""
    made = policies.hpa(minReplicas=1, behavior={"scaleUp": {"tolerance": "0.05"}})
    made["metadata"]["annotations"] = {"lagbench.io/kubernetes": version}
    kept = registry_of().create(KINDS[0], made, PLACE)["spec"]

    assert kept["behavior"]["scaleUp"].get("tolerance") == stored
    with pytest.raises(ApiError, match="minReplicas"):
        registry_of().create(KINDS[0], {**made, "spec": {**kept, "minReplicas": 0}}, PLACE)


def test_secrets_and_airflow_settings_are_not_inherited() -> None:
    """Pods get the plain variables, and nothing that names or holds a secret."""
    plain = {"HOME": "/home/x", "PATH": "/usr/bin", "KAFKA_BOOTSTRAP_SERVERS": "127.0.0.1:9092"}
    secret = {
        "API_TOKEN": "t",
        "db_password": "p",
        "AIRFLOW_CONN_KAFKA_DEFAULT": "c",
        "AIRFLOW_HOME": "a",
        "DATABASE_URL": "postgres://u:p@db/x",
    }

    assert pod_environment(plain | secret) == plain


def test_both_name_the_annotations_of_pods_alike() -> None:
    """Localkube is a package of its own: it has the names a second time."""
    assert (PORT_ANNOTATION, POD_ORDINAL_ANNOTATION) == (PORT, ORDINAL)
