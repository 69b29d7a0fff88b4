"""A user's Kubernetes objects have the types of Kubernetes, or one message names the field."""

from __future__ import annotations

from typing import Any

import pytest

from lagbench.catalog.kubernetes_types import typed_objects
from lagbench.catalog.strict_yaml import parse_documents
from lagbench.errors import WrongInput

CONTAINER = "spec.template.spec.containers[0]"
GRACE = "spec.template.spec.terminationGracePeriodSeconds"
FILE = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: orders}
spec:
  template:
    spec:
      terminationGracePeriodSeconds: 45
      containers:
        - name: orders
          command: [python, x.py]
          ports: [{containerPort: 8080}]
          env: [{name: FLAG, value: ready}]
          readinessProbe: {httpGet: {port: 8080}}
          resources: {requests: {cpu: 0.5, memory: 1Gi}}
"""


def read(old: str, new: str) -> Any:
    """Return the Deployment after one change of its text."""
    assert old in FILE
    (found,) = typed_objects(
        parse_documents(FILE.replace(old, new, 1), where="own.yaml"), where="own.yaml"
    )
    return found


@pytest.mark.parametrize(
    ("old", "new", "place", "value", "allowed"),
    [
        ("ready", "true", f"{CONTAINER}.env[0].value", True, '"true"'),
        ("ready", "1000.0", f"{CONTAINER}.env[0].value", 1000.0, '"1000.0"'),
        ("ready", "{a: b}", f"{CONTAINER}.env[0].value", "a mapping", "a text"),
        ("[{name: FLAG, value: ready}]", "{FLAG: a}", f"{CONTAINER}.env", "a mapping", "a list"),
        ("name: FLAG, ", "", f"{CONTAINER}.env[0].name", None, "required"),
        ("FLAG", "''", f"{CONTAINER}.env[0].name", None, "required"),
        ("FLAG", "A=B", f"{CONTAINER}.env[0].name", "A=B", "without ="),
        ("{name: FLAG, value: ready}", "null", f"{CONTAINER}.env[0].name", None, "required"),
        ("45", "60s", GRACE, "60s", "whole number"),
        ("45", "-1", GRACE, -1, "from 0 to"),
        ("45", "1.5", GRACE, 1.5, "whole number"),
        ("45", "true", GRACE, True, "whole number"),
        ("[{containerPort: 8080}]", "[8080]", f"{CONTAINER}.ports[0]", 8080, "containerPort"),
        ("containerPort: 8080", "name: a", f"{CONTAINER}.ports[0].containerPort", None, "requ"),
        ("Port: 8080", "Port: 70000", f"{CONTAINER}.ports[0].containerPort", 70000, "65535"),
        ("[python, x.py]", "python x.py", f"{CONTAINER}.command", "python x.py", '["python", "x'),
        ("x.py", "8080", f"{CONTAINER}.command[1]", 8080, '"8080"'),
        ("{port: 8080}", "{path: /}", f"{CONTAINER}.readinessProbe.httpGet.port", None, "requ"),
        ("1Gi", "much", f"{CONTAINER}.resources.requests.memory", "much", "quantity"),
        ("- name: orders", "- image: x", f"{CONTAINER}.name", None, "required"),
        ("name: orders}", "labels: {tier: 1}}", "metadata.labels.tier", 1, '"1"'),
        ("{name: orders}", "[]", "metadata", "a list", "a mapping"),
        ("  template:", "  temlate:", "spec.template", None, "required"),
        ("apps/v1", "extensions/v1beta1", "apiVersion", "extensions/v1beta1", "apps/v1"),
    ],
)
def test_a_field_of_another_type_is_named(
    old: str, new: str, place: str, value: object, allowed: str
) -> None:
    """Place, value and what is allowed: the API server would reject it, too."""
    with pytest.raises(WrongInput) as refused:
        read(old, new)

    assert (refused.value.where, refused.value.field) == ("own.yaml", place)
    assert refused.value.value == value
    assert allowed in refused.value.allowed


def test_nulls_are_not_given_and_whole_numbers_are_whole() -> None:
    """As the API server reads them; a null in a list of texts is the empty text."""
    found = read("ready", "null")["spec"]["template"]["spec"]
    assert found["containers"][0]["env"] == [{"name": "FLAG"}]
    assert read("x.py", "null")["spec"]["template"]["spec"]["containers"][0]["command"][1] == ""
    assert "terminationGracePeriodSeconds" not in read("45", "null")["spec"]["template"]["spec"]
    assert read("45", "45.0")["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] == 45


@pytest.mark.parametrize(
    ("text", "place"),
    [
        (FILE.replace("FLAG", "DB_PASSWORD").replace("ready", "4711"), f"{CONTAINER}.env[0].value"),
        ("{apiVersion: v1, kind: Secret, stringData: {pin: 4711}}", "stringData.pin"),
    ],
)
def test_what_may_be_a_secret_is_not_shown(text: str, place: str) -> None:
    """The message has its type."""
    with pytest.raises(WrongInput) as refused:
        typed_objects(parse_documents(text, where="f"), where="f")

    assert refused.value.field == place
    assert "4711" not in str(refused.value)


def test_other_documents_stay_as_they_are() -> None:
    """What is no workload, ConfigMap or Secret is read elsewhere."""
    documents = [{"kind": "ScaledObject", "spec": 1}, "text", {"kind": ["Deployment"]}]

    assert typed_objects(documents, where="f") == documents


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet"])
def test_a_right_workload_stays_as_it_is(kind: str) -> None:
    """A field more, such as serviceName of a Deployment, is refused by a server-side apply."""
    documents = parse_documents(FILE.replace("Deployment", kind), where="f")

    assert typed_objects(documents, where="f") == documents
