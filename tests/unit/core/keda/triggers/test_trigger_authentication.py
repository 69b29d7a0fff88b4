"""TriggerAuthentications: references, and the values they resolve to."""

from typing import Any

import pytest

from lagbench.core.keda.refusals import NotSupported
from lagbench.core.keda.triggers.authentication import (
    AuthenticationRef,
    TargetEnvironment,
    authentication_refs,
    decode_secret,
    referenced_objects,
    resolve_authentication,
)
from lagbench.errors import WrongInput


def authentication(**spec: Any) -> dict[str, Any]:
    """Return a TriggerAuthentication."""
    return {
        "apiVersion": "keda.sh/v1alpha1",
        "kind": "TriggerAuthentication",
        "metadata": {"name": "kafka-login", "namespace": "n"},
        "spec": spec,
    }


def resolve(manifest: dict[str, Any]) -> dict[str, str]:
    """Return the values with one Secret, one ConfigMap and two containers at hand."""
    return resolve_authentication(
        manifest,
        where="auth.yaml",
        secrets={"login": {"user": "u", "password": "p"}},
        config_maps={"settings": {"mode": "scram_sha512"}},
        environment=TargetEnvironment({"": {"A": "first"}, "side": {"A": "second"}}),
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
    assert referenced_objects(manifest) == ({"login"}, {"settings"})


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


def test_references_are_listed_by_trigger() -> None:
    """The index tells the trigger; triggers without one and malformed ones are left out."""
    triggers = [
        {"type": "kafka"},
        {"type": "kafka", "authenticationRef": {"name": "a"}},
        {"authenticationRef": {"name": "b", "kind": "ClusterTriggerAuthentication"}},
        {"authenticationRef": {"name": ""}},
        "no trigger",
    ]

    assert authentication_refs({"spec": {"triggers": triggers}}) == [
        (1, AuthenticationRef(name="a")),
        (2, AuthenticationRef(name="b", kind="ClusterTriggerAuthentication")),
    ]
    assert authentication_refs({"spec": None}) == []


def test_a_secrets_data_is_decoded() -> None:
    """``data`` is base64 and ``stringData`` is not; a wrong value is named without its text."""
    secret = {"data": {"user": "dQ==", "both": "YQ=="}, "stringData": {"both": "b"}}

    assert decode_secret(secret, where="s") == {"user": "u", "both": "b"}
    with pytest.raises(WrongInput) as caught:
        decode_secret({"data": {"password": "hunter2!"}}, where="s")
    assert "hunter2" not in str(caught.value)


def test_resolved_environments_do_not_show() -> None:
    """The repr of an environment holds no value."""
    assert "first" not in repr(TargetEnvironment({"": {"A": "first"}}))
