"""Give a user's consumer the log-in of the run's Kafka, by placeholders of the scenario.

``{kafka.NAME}`` is librdkafka's setting of that name. Its value comes from a Secret, so that no
manifest and no run folder has it. ``{kafka_config}`` is the path of a file with all settings.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from lagbench.core.cluster.settings import KAFKA_SETTINGS_FOLDER, KAFKA_SETTINGS_KEY
from lagbench.core.scenario.own_consumer import KAFKA_CONFIG, KAFKA_PREFIX
from lagbench.core.scenario.scenario import ConsumerSettings
from lagbench.errors import WrongInput

OWN_KAFKA_SECRET = "consumer-kafka"  # noqa: S105 - the name of an object
_VOLUME = "lagbench-kafka"
_DEFAULTS = {"security.protocol": "plaintext"}
"""Of librdkafka: a Kafka without any setting has it, too."""


@dataclass(frozen=True, slots=True)
class KafkaSettings:
    """librdkafka's settings of the run's Kafka, as this machine's processes have them."""

    values: Mapping[str, str] = field(default_factory=dict, repr=False)  # may hold a password
    file: str | None = None
    """Of ``name=value`` lines; None: the Kafka has no other settings than its address."""

    def value(self, name: str) -> str | None:
        """Return a setting; None: it is not set."""
        return self.values.get(name, _DEFAULTS.get(name))

    def require(self, consumer: ConsumerSettings) -> None:
        """Reject a placeholder that this Kafka has no value for."""
        for place, name in consumer.kafka_told:
            if name == KAFKA_CONFIG:
                is_known = self.file is not None
            else:
                is_known = self.value(name.removeprefix(KAFKA_PREFIX)) is not None
            if not is_known:
                known = ", ".join(sorted({*self.values, *_DEFAULTS}))
                raise WrongInput(
                    where="scenario",
                    field=place,
                    value=f"{{{name}}}",
                    allowed=f"settings that this Kafka has: {known}; AIRFLOW_CONN_KAFKA_DEFAULT "
                    "has the others, if it needs them",
                )

    def secret_values(self, consumer: ConsumerSettings) -> dict[str, str]:
        """Return the settings that the consumer's placeholders name."""
        names = settings_told(consumer)
        return {name: value for name in names if (value := self.value(name)) is not None}


def settings_told(consumer: ConsumerSettings) -> list[str]:
    """Return the names of the settings that the scenario's placeholders name."""
    names = {name for _, name in consumer.kafka_told if name != KAFKA_CONFIG}
    return sorted(name.removeprefix(KAFKA_PREFIX) for name in names)


def require_kafka_secret(consumer: ConsumerSettings, secret: str | None) -> None:
    """Reject placeholders of a log-in on a cluster whose settings name no Secret."""
    for place, name in consumer.kafka_told:
        if secret is None:
            raise WrongInput(
                where="scenario",
                field=place,
                value=f"{{{name}}}",
                allowed="with KAFKA_SECRET in the target's settings, which names the Secret",
            )


def kafka_variables(consumer: ConsumerSettings, secret: str) -> list[dict[str, Any]]:
    """Return a variable for each setting: the key of its name in ``secret``."""
    return [
        {
            "name": _variable(name),
            "valueFrom": {"secretKeyRef": {"name": secret, "key": name}},
        }
        for name in settings_told(consumer)
    ]


def kafka_texts(consumer: ConsumerSettings, config_file: str | None) -> dict[str, str]:
    """Return what each placeholder of the log-in becomes."""
    texts = {f"{KAFKA_PREFIX}{name}": f"$({_variable(name)})" for name in settings_told(consumer)}
    return texts if config_file is None else {**texts, KAFKA_CONFIG: config_file}


def mount_kafka_settings(pod: dict[str, Any], container: dict[str, Any], secret: str) -> str:
    """Mount the Secret with the settings of a cluster's Kafka; return the path of its file."""
    volume = {"name": _VOLUME, "secret": {"secretName": secret, "defaultMode": 0o444}}
    mount = {"name": _VOLUME, "mountPath": KAFKA_SETTINGS_FOLDER, "readOnly": True}
    pod["volumes"] = [*(pod.get("volumes") or []), volume]
    container["volumeMounts"] = [*(container.get("volumeMounts") or []), mount]
    return f"{KAFKA_SETTINGS_FOLDER}/{KAFKA_SETTINGS_KEY}"


def _variable(setting: str) -> str:
    return f"LAGBENCH_KAFKA_{re.sub('[^A-Z0-9]', '_', setting.upper())}"
