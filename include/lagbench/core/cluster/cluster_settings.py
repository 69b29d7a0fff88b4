"""Read the settings of a cluster: namespace, images, storage class, Kafka, names of metrics.

They come from the connection ``kubernetes_default``; missing ones keep the values of the committed
manifests.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

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
_FIELDS: Mapping[str, tuple[str, str, str]] = {
    NAMESPACE_FIELD: ("namespace", r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", "a DNS label"),
    SERVERS_FIELD: (
        "bootstrap_servers",
        f"{_SERVER}(,{_SERVER})*",
        "host:port, several separated by commas",
    ),
    IMAGE_FIELD: ("image", *_IMAGE),
    SPARK_IMAGE_FIELD: ("spark_image", *_IMAGE),
    STORAGE_CLASS_FIELD: (
        "storage_class",
        _SUBDOMAIN,
        f"the name of a storage class, or {NO_STORAGE}",
    ),
    REPLICATION_FIELD: (
        "replication_factor",
        r"[1-9]\d{0,3}",
        "a number of brokers, or nothing for the broker's default",
    ),
    KAFKA_SETTINGS_FIELD: ("kafka_secret", *_SECRET),
    PULL_SECRET_FIELD: ("image_pull_secret", *_SECRET),
    ALIASES_FIELD: ("metric_aliases", "on|off", "on or off"),
}
"""The setting of each field, and the values that Kubernetes and Kafka take, also in words."""


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
    found: dict[str, Any] = {}
    for field, (name, pattern, allowed) in _FIELDS.items():
        text = str(fields.get(field) or "").strip()
        if text and not re.fullmatch(pattern, text):
            raise WrongInput(where=where, field=field, value=text, allowed=allowed)
        if text:
            found[name] = text
    if "replication_factor" in found:
        found["replication_factor"] = int(found["replication_factor"])
    if "metric_aliases" in found:
        found["metric_aliases"] = found["metric_aliases"] == "on"
    return ClusterSettings(**found)
