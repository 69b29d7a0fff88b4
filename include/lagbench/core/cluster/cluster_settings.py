"""Read the settings of a cluster: namespace, images, storage class, Kafka, names of metrics.

They come from the connection ``kubernetes_default``; missing ones keep the values of the committed
manifests.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from lagbench.core.scenario.run_names import NAMESPACE
from lagbench.errors import WrongInput

EMBEDDED = "embedded"
"""The target on this machine, without a cluster."""
NO_STORAGE = "none"
"""As storage class: store nothing; the lag scaler's windows and the checkpoint of a consumer on
Spark end with their pods."""
NAMESPACE_FIELD = "namespace"  # the Kubernetes provider's own
SERVERS_FIELD = "lagbench_bootstrap_servers"
IMAGE_FIELD = "lagbench_image"
SPARK_IMAGE_FIELD = "lagbench_spark_image"
PULL_SECRET_FIELD = "lagbench_image_pull_secret"  # noqa: S105 - a field's name
STORAGE_CLASS_FIELD = "lagbench_storage_class"
REPLICATION_FIELD = "lagbench_replication_factor"
ALIASES_FIELD = "lagbench_metric_aliases"
KAFKA_SETTINGS_FIELD = "lagbench_kafka_secret"
KAFKA_SETTINGS_KEY = "client.properties"
"""The key of the Secret with librdkafka's settings; files that they name are its other keys."""
KAFKA_SETTINGS_FOLDER = "/etc/lagbench/kafka"
"""Where pods of a run have that Secret as files."""
_SUBDOMAIN = r"(?=.{1,253}$)[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*"
_PORT = r"0*([1-9]\d{0,3}|[1-5]\d{4}|6[0-4]\d{3}|65[0-4]\d\d|655[0-2]\d|6553[0-5])"
_SERVER = rf"\s*(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]+):{_PORT}\s*"
_IMAGE = (r"[A-Za-z0-9][A-Za-z0-9._:/@-]*", "an image reference")
_SECRET = (_SUBDOMAIN, "a Secret's name")

_ALLOWED: Mapping[str, tuple[str, str]] = {
    NAMESPACE_FIELD: (r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", "a DNS label"),
    SERVERS_FIELD: (f"{_SERVER}(,{_SERVER})*", "host:port, several separated by commas"),
    IMAGE_FIELD: _IMAGE,
    SPARK_IMAGE_FIELD: _IMAGE,
    STORAGE_CLASS_FIELD: (_SUBDOMAIN, f"the name of a storage class, or {NO_STORAGE}"),
    REPLICATION_FIELD: (
        r"[1-9]\d{0,3}",
        "a number of brokers, or nothing for the broker's default",
    ),
    KAFKA_SETTINGS_FIELD: _SECRET,
    PULL_SECRET_FIELD: _SECRET,
    ALIASES_FIELD: ("on|off", "on or off"),
}
"""The values that Kubernetes and Kafka take in each field, as a pattern and in words."""


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    """Settings for the pods and topics of a run.

    None keeps the committed manifest's value; for the replicas of a topic, the broker's default.
    ``metric_aliases``: also export the recorder's metrics under the names of other exporters; None:
    on the embedded bench only.
    """

    namespace: str = NAMESPACE
    bootstrap_servers: str | None = None
    image: str | None = None
    storage_class: str | None = None
    replication_factor: int | None = None
    metric_aliases: bool | None = None
    spark_image: str | None = None
    kafka_secret: str | None = None
    """A Secret with the settings of the pods' Kafka clients: TLS and SASL. None: plain text."""
    image_pull_secret: str | None = None
    """A Secret with the log-in to the images' registry. None: the nodes need none."""


def cluster_settings(fields: Mapping[str, object], *, where: str) -> ClusterSettings:
    """Return the settings among a connection's ``fields``; the other fields are the provider's."""
    found: dict[str, str] = {}
    for field, (pattern, allowed) in _ALLOWED.items():
        text = str(fields.get(field) or "").strip()
        if text and not re.fullmatch(pattern, text):
            raise WrongInput(where=where, field=field, value=text, allowed=allowed)
        if text:
            found[field] = text
    factor, aliases = found.get(REPLICATION_FIELD), found.get(ALIASES_FIELD)
    return ClusterSettings(
        namespace=found.get(NAMESPACE_FIELD, NAMESPACE),
        bootstrap_servers=found.get(SERVERS_FIELD),
        image=found.get(IMAGE_FIELD),
        storage_class=found.get(STORAGE_CLASS_FIELD),
        replication_factor=None if factor is None else int(factor),
        metric_aliases=None if aliases is None else aliases == "on",
        spark_image=found.get(SPARK_IMAGE_FIELD),
        kafka_secret=found.get(KAFKA_SETTINGS_FIELD),
        image_pull_secret=found.get(PULL_SECRET_FIELD),
    )
