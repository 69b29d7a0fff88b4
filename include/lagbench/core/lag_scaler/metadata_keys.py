"""Define the keys of a ScaledObject's metadata for this scaler, and find near misses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches

FROM_ENV = "FromEnv"

RULE_KEYS = (
    "lagThreshold",
    "activationLagThreshold",
    "sustainSeconds",
    "scaleUpStabilization",
    "scaleDownStabilization",
    "samplingInterval",
    "windowSize",
    "lagScope",
    "lagMetric",
    "offsetResetPolicy",
    "scaleToZeroOnInvalidOffset",
    "excludePersistentLag",
    "partitionLimitation",
    "limitToPartitionsWithLag",
    "allowIdleConsumers",
    "ensureEvenDistributionOfPartitions",
)
KAFKA_KEYS = ("bootstrapServers", "topic", "consumerGroup", "tls", "sasl", "unsafeSsl")
IGGY_KEYS = ("serverAddress", "streamId", "topicId", "consumerGroupId")
# Only by reference: <name>FromEnv, which KEDA resolves before it calls the scaler.
SECRET_KEYS = ("password", "accessToken", "key", "keyPassword")
LOGIN_KEYS = ("username", "ca", "cert", *SECRET_KEYS)
# Read by KEDA itself, or by its kafka trigger: a switch between the two must not fail on them.
KEDA_KEYS = (
    "scalerAddress",
    "enableTLS",
    "tlsCertFile",
    "caCert",
    "tlsClientCert",
    "tlsClientKey",
    "fullMetadata",
    "version",
)
KNOWN_KEYS = frozenset(("source", *RULE_KEYS, *KAFKA_KEYS, *IGGY_KEYS, *LOGIN_KEYS, *KEDA_KEYS))

# The original's variables where it has one; they are the defaults of missing metadata.
ENVIRONMENT_DEFAULTS: Mapping[str, str] = {
    "source": "LAG_SOURCE",
    "bootstrapServers": "KAFKA_BROKERS",
    "topic": "KAFKA_TOPIC",
    "consumerGroup": "KAFKA_GROUP_ID",
    "tls": "KAFKA_TLS",
    "sasl": "KAFKA_SASL",
    "unsafeSsl": "KAFKA_UNSAFE_SSL",
    "serverAddress": "IGGY_ADDRESS",
    "streamId": "IGGY_STREAM_ID",
    "topicId": "IGGY_TOPIC_ID",
    "consumerGroupId": "IGGY_CONSUMER_GROUP_ID",
    "lagThreshold": "LAG_THRESHOLD",
    "activationLagThreshold": "ACTIVATION_LAG_THRESHOLD",
    "sustainSeconds": "SUSTAIN_SECONDS",
    "scaleUpStabilization": "SCALE_UP_STABILIZATION",
    "scaleDownStabilization": "SCALE_DOWN_STABILIZATION",
    "samplingInterval": "SAMPLING_INTERVAL",
    "windowSize": "WINDOW_SIZE",
    "lagScope": "LAG_SCOPE",
    "lagMetric": "LAG_METRIC",
    "offsetResetPolicy": "OFFSET_RESET_POLICY",
}
# Logins of the server itself. They are sent only to the address in the server's own
# environment: else any author of a ScaledObject could have them sent to a host of their choice.
KAFKA_LOGIN_DEFAULTS: Mapping[str, str] = {
    "username": "KAFKA_USERNAME",
    "password": "KAFKA_PASSWORD",
    "ca": "KAFKA_CA",
    "cert": "KAFKA_CERT",
    "key": "KAFKA_KEY",
    "keyPassword": "KAFKA_KEY_PASSWORD",
}
IGGY_LOGIN_DEFAULTS: Mapping[str, str] = {
    "username": "IGGY_USERNAME",
    "password": "IGGY_PASSWORD",
    "accessToken": "IGGY_ACCESS_TOKEN",
    "ca": "IGGY_CA",
}


def unknown_keys(metadata: Iterable[str]) -> tuple[str, ...]:
    """Return the keys that neither this scaler nor KEDA reads, sorted."""
    return tuple(sorted(key for key in metadata if key.removesuffix(FROM_ENV) not in KNOWN_KEYS))


def near_miss(key: str) -> str | None:
    """Return the known key that ``key`` is most likely a misspelling of; None when none is near.

    0.84 is the highest limit that still catches one wrong, missing or doubled letter in ``topic``
    and words such as ``sustainSec``; names of other tools stay below it.
    """
    by_lower = {known.lower(): known for known in KNOWN_KEYS}
    bare = key.removesuffix(FROM_ENV).lower().replace("_", "").replace("-", "")
    close = get_close_matches(bare, by_lower, n=1, cutoff=0.84)
    return by_lower[close[0]] if close else None
