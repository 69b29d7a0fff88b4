"""TriggerAuthentications: references, and the values they resolve to."""

from __future__ import annotations

from typing import Any

import pytest

from lagbench.core.keda.triggers.promql import LagQuery, parse_lag_query, query_for_run
from lagbench.core.keda.triggers.trigger_authentication import (
    decode_secret,
    resolve_authentication,
)
from lagbench.core.keda.triggers.trigger_parameters import NotSupported
from lagbench.errors import WrongInput


def authentication(**spec: Any) -> dict[str, Any]:
    """Return a TriggerAuthentication."""
    return {
        "apiVersion": "keda.sh/v1alpha1",
        "kind": "TriggerAuthentication",
        "metadata": {"name": "kafka-login", "namespace": "n"},
        "spec": spec,
    }


VALUES = {
    ("Secret", "login"): {"user": "u", "password": "p"},
    ("ConfigMap", "settings"): {"mode": "scram_sha512"},
}


def resolve(manifest: dict[str, Any]) -> dict[str, str]:
    """Return the values with one Secret, one ConfigMap and two containers at hand."""
    return resolve_authentication(
        manifest,
        where="auth.yaml",
        values_of=lambda kind, name: VALUES.get((kind, name)),
        environment=lambda: {"": {"A": "first"}, "side": {"A": "second"}},
    )


def test_values_come_from_secrets_maps_and_the_environment() -> None:
    """Each source gives its parameters; an empty container name is KEDA's default container."""
    manifest = authentication(
        secretTargetRef=[
            {"parameter": "username", "name": "login", "key": "user"},
            {"parameter": "password", "name": "login", "key": "password"},
        ],
        configMapTargetRef=[{"parameter": "sasl", "name": "settings", "key": "mode"}],
        env=[
            {"parameter": "one", "name": "A"},
            {"parameter": "two", "name": "A", "containerName": "side"},
        ],
    )

    assert resolve(manifest) == {
        "username": "u",
        "password": "p",
        "sasl": "scram_sha512",
        "one": "first",
        "two": "second",
    }


def test_what_is_missing_is_empty() -> None:
    """A Secret, key, variable or container that is not there gives an empty value, as in KEDA."""
    manifest = authentication(
        secretTargetRef=[
            {"parameter": "a", "name": "gone", "key": "user"},
            {"parameter": "b", "name": "login", "key": "gone"},
        ],
        env=[
            {"parameter": "c", "name": "GONE"},
            {"parameter": "d", "name": "A", "containerName": "x"},
        ],
    )

    assert resolve(manifest) == {"a": "", "b": "", "c": "", "d": ""}


def test_a_secret_wins_over_the_environment() -> None:
    """Where several sources name a parameter, the last in KEDA's order counts."""
    manifest = authentication(
        env=[{"parameter": "username", "name": "A"}],
        secretTargetRef=[{"parameter": "username", "name": "login", "key": "user"}],
    )

    assert resolve(manifest) == {"username": "u"}


@pytest.mark.parametrize("source", ["hashiCorpVault", "podIdentity", "awsSecretManager"])
def test_a_source_that_only_keda_has_is_refused_by_name(source: str) -> None:
    """It is never taken for an empty value."""
    with pytest.raises(NotSupported, match=source):
        resolve(authentication(**{source: {"token": "t-secret"}}))


def test_a_malformed_entry_is_named() -> None:
    """An entry needs its parameter, the object's name and the key."""
    entry = {"parameter": "username", "name": "login"}

    key = "spec.secretTargetRef[0].key"
    with pytest.raises(WrongInput, check=lambda error: error.field == key):
        resolve(authentication(secretTargetRef=[entry]))
    with pytest.raises(WrongInput, check=lambda error: "secretTargetRef" in error.allowed):
        resolve(authentication(secretTargetRefs=[entry]))


def test_another_kind_is_refused() -> None:
    """Only the two kinds of KEDA's own group are read."""
    with pytest.raises(WrongInput, check=lambda error: error.value == "v1 Secret"):
        resolve({"apiVersion": "v1", "kind": "Secret", "spec": {}})


def test_a_secrets_data_is_decoded() -> None:
    """``data`` is base64 and ``stringData`` is not; a wrong value is named without its text."""
    secret = {"data": {"user": "dQ==", "both": "YQ=="}, "stringData": {"both": "b"}}

    assert decode_secret(secret, where="s") == {"user": "u", "both": "b"}
    with pytest.raises(WrongInput) as caught:
        decode_secret({"data": {"password": "hunter2!"}}, where="s")
    assert "hunter2" not in str(caught.value)


EXPORTER = LagQuery("kafka_exporter", "enrich")

OF_TOPIC = LagQuery("kafka_exporter", "enrich", "events")


@pytest.mark.parametrize(
    ("query", "asked"),
    [
        ('sum(kafka_consumergroup_lag{consumergroup="enrich"})', EXPORTER),
        ("sum ( kafka_consumergroup_lag { consumergroup = 'enrich' } )", EXPORTER),
        ('sum(\n  kafka_consumergroup_lag{consumergroup="enrich",topic="events",}\n)', OF_TOPIC),
        ('sum by (consumergroup) (kafka_consumergroup_lag{consumergroup="enrich"})', EXPORTER),
        ('sum(kafka_consumergroup_lag{consumergroup="enrich"}) by (consumergroup,topic)', EXPORTER),
        ('sum(kafka_consumergroup_lag{consumergroup="enrich"}) or vector(0)', EXPORTER),
        ('kafka_consumergroup_lag_sum{topic="events",consumergroup="enrich"}', OF_TOPIC),
        ('sum(kafka_consumergroup_lag_sum{consumergroup="enrich"})', EXPORTER),
        ("lagbench_lag_records", LagQuery("recorder")),
        ("sum(lagbench_partition_lag_records)", LagQuery("recorder")),
    ],
)
def test_a_query_for_the_total_lag_is_understood(query: str, asked: LagQuery) -> None:
    """Its group and topic are those of the matchers, however it is written."""
    assert parse_lag_query(query) == asked


@pytest.mark.parametrize(
    "query",
    [
        "up",
        "",
        "sum(kafka_consumergroup_lag)",
        'kafka_consumergroup_lag{consumergroup="enrich"}',
        'avg(kafka_consumergroup_lag{consumergroup="enrich"})',
        'sum(kafka_consumergroup_lag{consumergroup=~"enrich.*"})',
        'sum(kafka_consumergroup_lag{consumergroup="enrich",partition="3"})',
        'sum by (partition) (kafka_consumergroup_lag{consumergroup="enrich"})',
        'sum(kafka_consumergroup_lag{consumergroup="enrich"}) + 1',
        'sum(kafka_consumergroup_lag{consumergroup="enrich"} offset 1m)',
        'sum(rate(kafka_consumergroup_lag{consumergroup="enrich"}[1m]))',
        'sum(kafka_consumergroup_lag{consumergroup="enrich"}) or vector(1)',
        'sum(kafka_consumergroup_lag{consumergroup="enrich"}',
        'lagbench_lag_records{run_id="x"}',
        "lagbench_partition_lag_records",
    ],
)
def test_any_other_query_is_not(query: str) -> None:
    """One partition, several series, a rate, the past or all groups are not the group's lag."""
    assert parse_lag_query(query) is None


def test_a_run_puts_its_group_and_topic_into_every_matcher() -> None:
    """Also where the query is none that the simulator knows; other labels and texts stay."""
    query = (
        'max(rate(x{consumergroup=~"prod.*",topic="t",job="topic=\\"t\\""}[1m]))'
        " / on(consumergroup) y{consumergroup='a'}"
    )

    assert query_for_run(query, group="enrich.run", topic="lagbench.run.events") == (
        'max(rate(x{consumergroup="enrich.run",topic="lagbench.run.events",job="topic=\\"t\\""}[1m]))'
        ' / on(consumergroup) y{consumergroup="enrich.run"}'
    )
