"""Secrets of triggers: where they come from, when they are read again, what is missing."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import pytest
from tests.fakes.autoscaler_world import KEY, World, kafka, scaled_object, world

from lagbench.adapters.kube.cluster_protocol import SCALED_OBJECT, Manifest


def authenticated(kind: str = "TriggerAuthentication", **metadata: str) -> dict[str, Any]:
    """Return a kafka trigger with a password from the authentication ``login``."""
    reference = {"name": "login", "kind": kind}
    return {**kafka(sasl="plaintext", **metadata), "authenticationRef": reference}


def put_login(here: World, *, value: str, namespace: str = "n") -> None:
    """Store the Secret that holds the login."""
    data = {"user": b64encode(b"alice").decode(), "pass": b64encode(value.encode()).decode()}
    here.cluster.put(
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "s", "namespace": namespace},
            "data": data,
        }
    )


def login(kind: str = "TriggerAuthentication") -> Manifest:
    """Return the authentication that reads it."""
    references = [
        {"parameter": "username", "name": "s", "key": "user"},
        {"parameter": "password", "name": "s", "key": "pass"},
    ]
    place = {} if kind.startswith("Cluster") else {"namespace": "n"}
    return {
        "apiVersion": "keda.sh/v1alpha1",
        "kind": kind,
        "metadata": {"name": "login", **place},
        "spec": {"secretTargetRef": references},
    }


def test_a_changed_secret_counts_when_the_scalers_are_built_anew() -> None:
    """The first poll uses the first password; an error makes KEDA read the Secret again."""
    here = world(scaled_object(triggers=[authenticated()]))
    here.cluster.put(login())
    put_login(here, value="first")
    here.worker.step()
    put_login(here, value="second")
    here.after(10)
    before = list(here.source.passwords)
    here.source.failing = {0}
    here.after(10)

    assert before == ["first"]
    assert here.source.passwords[1:] == ["second"]
    assert here.status()["authenticationsTypes"] == "login"


@pytest.mark.parametrize("missing", ["authentication", "secret"])
def test_without_its_secret_the_trigger_says_what_it_lacks_until_it_is_there(missing: str) -> None:
    """KEDA finds the parameter empty, not the object missing; a retry then succeeds."""
    here = world(scaled_object(triggers=[authenticated()]))
    if missing == "authentication":
        put_login(here, value="p")
    else:
        here.cluster.put(login())
    delay = here.worker.step()
    said = here.condition(SCALED_OBJECT, KEY, "Ready")["message"]
    here.cluster.put(login())
    put_login(here, value="p")
    here.after(delay)

    assert "username" in said
    assert here.shown("Ready") == "True:ScaledObjectReady"


def test_the_secrets_of_the_cluster_wide_kind_lie_in_kedas_namespace() -> None:
    """A Secret of the same name beside the object is not looked at."""
    kind = "ClusterTriggerAuthentication"
    here = world(scaled_object(triggers=[authenticated(kind)]))
    authentication = login(kind)
    authentication["metadata"]["namespace"] = ""
    here.cluster.put(authentication)
    put_login(here, value="other")
    put_login(here, value="kedas", namespace="keda")
    here.worker.step()

    assert here.source.passwords == ["kedas"]


def test_parameters_from_the_environment_follow_the_references_of_the_container() -> None:
    """Plain values, Secret keys and whole ConfigMaps of the named container are read."""
    trigger = kafka(
        topic="",
        topicFromEnv="TOPIC",
        consumerGroup="",
        consumerGroupFromEnv="APP_GROUP",
        bootstrapServers="",
        bootstrapServersFromEnv="SERVERS",
    )
    manifest = scaled_object(triggers=[trigger])
    manifest["spec"]["scaleTargetRef"]["envSourceContainerName"] = "main"
    here = world(manifest)
    put_login(here, value="from-secret:9092")
    here.cluster.put(
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "c", "namespace": "n"},
            "data": {"GROUP": "g1"},
        }
    )
    container = {
        "name": "main",
        "envFrom": [{"prefix": "APP_", "configMapRef": {"name": "c"}}],
        "env": [
            {"name": "TOPIC", "value": "t1"},
            {
                "name": "SERVERS",
                "valueFrom": {"secretKeyRef": {"name": "s", "key": "pass"}},
            },
        ],
    }
    pod_spec = {"containers": [{"name": "proxy"}, container]}
    here.cluster.put(
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "w", "namespace": "n"},
            "spec": {"template": {"spec": pod_spec}},
        }
    )
    here.worker.step()

    assert here.status()["externalMetricNames"] == ["s0-kafka-t1"]


def test_no_event_or_condition_holds_a_secret() -> None:
    """A rejected trigger is told without the values that it got."""
    here = world(scaled_object(triggers=[authenticated(lagThreshold="0")]))
    here.cluster.put(login())
    put_login(here, value="open-sesame")
    here.worker.step()

    assert "lagThreshold" in str(here.cluster.events("w"))
    assert "open-sesame" not in str(here.cluster.objects[SCALED_OBJECT, KEY])
    assert "open-sesame" not in str(here.cluster.events("w"))
