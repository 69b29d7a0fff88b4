"""Read the settings of a cluster: namespace, images, storage class, Kafka, names of metrics.

They come from the connection ``kubernetes_default``; missing ones keep the values of the committed
manifests.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from lagbench.core.scenario import NAMESPACE
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

_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_SUBDOMAIN = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*")
_SUBDOMAIN_LENGTH = 253
_SERVER = re.compile(r"(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]+):(\d{1,5})")
_FACTOR = re.compile(r"[1-9]\d{0,3}")
_IMAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@-]*")
_HIGHEST_PORT = 65_535


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
    namespace = _text(fields, NAMESPACE_FIELD)
    servers = _text(fields, SERVERS_FIELD)
    image = _text(fields, IMAGE_FIELD)
    spark_image = _text(fields, SPARK_IMAGE_FIELD)
    storage_class = _text(fields, STORAGE_CLASS_FIELD)
    factor = _text(fields, REPLICATION_FIELD)
    aliases = _text(fields, ALIASES_FIELD)
    secret = _text(fields, KAFKA_SETTINGS_FIELD)
    pull_secret = _text(fields, PULL_SECRET_FIELD)
    checks = (
        (NAMESPACE_FIELD, namespace, bool(_LABEL.fullmatch(namespace or "a")), "a DNS label"),
        (SERVERS_FIELD, servers, _are_servers(servers), "host:port, several separated by commas"),
        (IMAGE_FIELD, image, bool(_IMAGE.fullmatch(image or "a")), "an image reference"),
        (
            SPARK_IMAGE_FIELD,
            spark_image,
            bool(_IMAGE.fullmatch(spark_image or "a")),
            "an image reference",
        ),
        (
            STORAGE_CLASS_FIELD,
            storage_class,
            _is_subdomain(storage_class),
            f"the name of a storage class, or {NO_STORAGE}",
        ),
        (
            REPLICATION_FIELD,
            factor,
            bool(_FACTOR.fullmatch(factor or "1")),
            "a number of brokers, or nothing for the broker's default",
        ),
        (KAFKA_SETTINGS_FIELD, secret, _is_subdomain(secret), "a Secret's name"),
        (PULL_SECRET_FIELD, pull_secret, _is_subdomain(pull_secret), "a Secret's name"),
        (ALIASES_FIELD, aliases, aliases in (None, "on", "off"), "on or off"),
    )
    for field, value, is_allowed, allowed in checks:
        if not is_allowed:
            raise WrongInput(where=where, field=field, value=value, allowed=allowed)
    replicas = None if factor is None else int(factor)
    is_on = None if aliases is None else aliases == "on"
    return ClusterSettings(
        namespace=namespace or NAMESPACE,
        bootstrap_servers=servers,
        image=image,
        storage_class=storage_class,
        replication_factor=replicas,
        metric_aliases=is_on,
        spark_image=spark_image,
        kafka_secret=secret,
        image_pull_secret=pull_secret,
    )


def _text(fields: Mapping[str, object], name: str) -> str | None:
    """Return a field as text; an empty field counts as absent."""
    value = fields.get(name)
    return None if value is None or not str(value).strip() else str(value).strip()


def _is_subdomain(name: str | None) -> bool:
    if name is None:
        return True
    return len(name) <= _SUBDOMAIN_LENGTH and bool(_SUBDOMAIN.fullmatch(name))


def _are_servers(servers: str | None) -> bool:
    if servers is None:
        return True
    found = [_SERVER.fullmatch(part.strip()) for part in servers.split(",")]
    return all(match and 1 <= int(match[2]) <= _HIGHEST_PORT for match in found)
