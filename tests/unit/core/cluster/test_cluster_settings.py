"""Settings of a cluster, as a connection gives them."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from lagbench.catalog.catalog import load_policy
from lagbench.core.cluster.cluster_settings import ClusterSettings, cluster_settings
from lagbench.core.cluster.policy_manifest import (
    CLAIM_RIGHT,
    RUN_RIGHTS,
    SECRET_RIGHT,
    rights_of_run,
)
from lagbench.errors import WrongInput
from lagbench.project import PROJECT_ROOT

WHERE = "kubernetes_default"


def test_what_is_left_out_is_as_committed() -> None:
    """Fields of the provider are nobody's settings, and empty is as good as absent."""
    given = {"kube_config_path": "/k", "cluster_context": "c", "lagbench_image": "  "}

    assert cluster_settings(given, where=WHERE) == ClusterSettings()


def test_every_setting_is_taken() -> None:
    """Namespace, servers, images, storage class, replicas and aliases come from their fields."""
    given = {
        "namespace": "spikes",
        "lagbench_bootstrap_servers": "kafka-0:9092,[::1]:9093",
        "lagbench_image": "registry.example.com:5000/programs@sha256:abc",
        "lagbench_storage_class": "gp3",
        "lagbench_replication_factor": 3,
        "lagbench_metric_aliases": "on",
        "lagbench_spark_image": "registry.example.com:5000/spark:1",
        "lagbench_image_pull_secret": "registry.login",
    }

    found = cluster_settings(given, where=WHERE)

    assert found == ClusterSettings(
        "spikes",
        "kafka-0:9092,[::1]:9093",
        "registry.example.com:5000/programs@sha256:abc",
        "gp3",
        3,
        metric_aliases=True,
        spark_image="registry.example.com:5000/spark:1",
        image_pull_secret="registry.login",  # noqa: S106 - a Secret's name
    )


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("namespace", "Spikes"),
        ("namespace", "-a"),
        ("lagbench_bootstrap_servers", "kafka"),
        ("lagbench_bootstrap_servers", "kafka:0"),
        ("lagbench_bootstrap_servers", "kafka:9092,"),
        ("lagbench_image", "two words"),
        ("lagbench_spark_image", "two words"),
        ("lagbench_storage_class", "Fast SSD"),
        ("lagbench_image_pull_secret", "registry..login"),
        ("lagbench_image_pull_secret", "Login"),
        ("lagbench_image_pull_secret", "a" * 254),
        ("lagbench_replication_factor", "0"),
        ("lagbench_replication_factor", "all"),
        ("lagbench_metric_aliases", "yes"),
    ],
)
def test_a_wrong_value_is_named(field: str, value: str) -> None:
    """The error has the connection, the field and the value."""
    with pytest.raises(WrongInput) as refused:
        cluster_settings({field: value}, where=WHERE)

    assert (refused.value.where, refused.value.field, refused.value.value) == (WHERE, field, value)


BASE = PROJECT_ROOT / "k8s" / "base"


def granted(path: str) -> set[tuple[str, str, str]]:
    """Return group, resource (with its part) and verb of each right of the file's only Role."""
    objects: list[dict[str, Any]] = list(yaml.safe_load_all((BASE / path).read_text()))
    (role,) = [item for item in objects if item["kind"] == "Role"]
    return {
        (group, resource, verb)
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def asked() -> set[tuple[str, str, str]]:
    """Return the same of what a run asks for."""
    return {
        (right.group, "/".join(filter(None, (right.resource, right.subresource))), verb)
        for right in (*RUN_RIGHTS, CLAIM_RIGHT, SECRET_RIGHT)
        for verb in right.verbs
    }


def test_the_runner_may_do_what_a_run_asks_for() -> None:
    """The committed Role of the account ``runner`` grants every right that is checked."""
    assert asked() - granted("runner/rbac.yaml") == set()


def test_the_check_covers_what_the_recorder_is_granted() -> None:
    """RBAC rejects a Role that grants more than its author has: a run must ask for it before."""
    assert granted("recorder/rbac.yaml") - asked() == set()


def test_the_runner_may_do_nothing_else_in_its_namespace() -> None:
    """Beyond what a run asks for, it may look at its namespace."""
    unasked = granted("runner/rbac.yaml") - asked()

    assert unasked == {("", "namespaces", "get")}


def test_the_runner_may_not_lift_the_profile_of_its_namespace() -> None:
    """It reads the namespace and changes nothing of it; a Role reaches no other namespace."""
    rights = granted("runner/rbac.yaml")

    assert {verb for _, resource, verb in rights if resource == "namespaces"} == {"get"}


@pytest.mark.parametrize(
    ("policy", "storage_class", "is_asked"),
    [
        ("persistent-lag", None, True),
        ("persistent-lag", "fast", True),
        ("persistent-lag", "none", False),
        ("lag-default", None, False),
        (None, None, False),
    ],
)
def test_the_lag_scaler_needs_a_claim(
    policy: str | None, storage_class: str | None, is_asked: bool
) -> None:
    """Claims for storage are asked about where a run makes one: the others need no such right."""
    cluster = ClusterSettings(storage_class=storage_class)

    rights = rights_of_run(cluster, [] if policy is None else [load_policy(policy).manifest])

    assert (CLAIM_RIGHT in rights) is is_asked
    assert SECRET_RIGHT not in rights
    assert set(RUN_RIGHTS) <= set(rights)


@pytest.mark.parametrize(("storage_class", "is_asked"), [(None, True), ("none", False)])
def test_a_consumer_on_spark_needs_a_claim(storage_class: str | None, *, is_asked: bool) -> None:
    """Its checkpoint outlives the driver's pod, where the cluster stores anything; and a Secret."""
    rights = rights_of_run(ClusterSettings(storage_class=storage_class), [], {"spark"})

    assert (CLAIM_RIGHT in rights) is is_asked
    assert SECRET_RIGHT in rights
