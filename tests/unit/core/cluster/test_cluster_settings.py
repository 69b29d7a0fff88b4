"""Settings of a cluster, as a connection gives them."""

from __future__ import annotations

import pytest

from lagbench.core.cluster.settings import ClusterSettings, cluster_settings
from lagbench.errors import WrongInput

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
