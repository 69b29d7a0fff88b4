"""Which kinds an API server serves, from its discovery documents."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any, cast

import pytest
from kubernetes.client import ApiClient, ApiException

from lagbench.adapters.kube.client.api_discovery import ApiDiscovery
from lagbench.errors import NotAllowed, NotReady

DOCUMENTS: dict[str, dict[str, Any]] = {
    "/api/v1": {"resources": [{"name": "pods", "kind": "Pod"}, {"name": "pods/log", "kind": "X"}]},
    "/apis/apps": {"versions": [{"groupVersion": "apps/v1"}, {"groupVersion": "apps/v2"}]},
    "/apis/apps/v1": {"resources": [{"name": "deployments", "kind": "Deployment"}]},
    "/apis/apps/v2": {"resources": []},
}


class Answers:
    """An API client that knows some paths; ``asked`` lists all that were asked."""

    configuration = SimpleNamespace(host="https://api")

    def __init__(self, status: int = 404) -> None:
        """Answer unknown paths with ``status``."""
        self.asked: list[str] = []
        self._status = status

    def call_api(self, path: str, method: str, **_: object) -> SimpleNamespace:
        """Answer a GET."""
        self.asked.append(path)
        if method != "GET" or path not in DOCUMENTS:
            raise ApiException(self._status, "no")
        return SimpleNamespace(data=json.dumps(DOCUMENTS[path]).encode())


def discovery(answers: Answers) -> ApiDiscovery:
    """Return a discovery of these answers."""
    return ApiDiscovery(cast("ApiClient", answers))


def test_kinds_of_all_versions_are_found() -> None:
    """Subresources are no kinds; the core group has a path of its own."""
    found = discovery(Answers())

    assert found.kinds("apps") == {("apps/v1", "Deployment")}
    assert found.kinds("") == {("v1", "Pod")}


def test_a_group_that_is_not_there_serves_nothing() -> None:
    """A name that no group can have is not even asked for; nothing is asked twice."""
    answers = Answers()
    found = discovery(answers)

    for group in ("argoproj.io", "argoproj.io", "..", "a b"):
        assert found.kinds(group) == frozenset()

    assert answers.asked == ["/apis/argoproj.io"]


def test_another_answer_is_no_knowledge() -> None:
    """An aggregated API that is unreachable, or a right that is missing, is told."""
    with pytest.raises(NotReady, match="503"):
        discovery(Answers(503)).kinds("metrics.k8s.io")
    with pytest.raises(NotAllowed, match="403"):
        discovery(Answers(403)).kinds("metrics.k8s.io")
