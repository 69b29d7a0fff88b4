"""Which kinds an API server serves, from its discovery documents."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from kubernetes import client
from kubernetes.client import ApiClient, ApiException

from lagbench.adapters.kube.client.api_discovery import ApiDiscovery
from lagbench.adapters.kube.client.kube_connection import log_in, written_token
from lagbench.adapters.kube.kube import Kube
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


KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: one
contexts: [{name: one, context: {cluster: c, user: u}}, {name: two, context: {cluster: d, user: u}}]
clusters:
- {name: c, cluster: {server: "https://c.example:6443"}}
- {name: d, cluster: {server: "https://d.example:6443"}}
users: [{name: u, user: {token: secret}}]
"""


def test_a_context_names_the_server(tmp_path: Path) -> None:
    """Without one it is the kubeconfig's current context."""
    path = tmp_path / "config"
    path.write_text(KUBECONFIG, encoding="utf-8")

    default = log_in(path, retries=2, advice="").configuration
    other = log_in(path, context="two", retries=0, pool_size=7, advice="").configuration

    assert (default.host, default.retries) == ("https://c.example:6443", 2)
    assert (other.host, other.retries) == ("https://d.example:6443", 0)
    assert other.connection_pool_maxsize == 7 != default.connection_pool_maxsize


def test_a_kubeconfig_that_is_missing_is_named_with_advice(tmp_path: Path) -> None:
    """The message has the path and what to do."""
    path = tmp_path / "none"

    with pytest.raises(NotReady, match=f"{path}.*Write one"):
        log_in(path, retries=0, advice="Write one")


def test_outside_a_pod_there_is_no_account() -> None:
    """Then the message says that the cluster around the pod was meant."""
    with pytest.raises(NotReady, match=r"in-cluster.*Run in a pod"):
        log_in(is_in_cluster=True, retries=0, advice="Run in a pod")


@pytest.mark.parametrize(
    ("user", "token"),
    [
        ("{token: secret}", "secret"),
        ("{token: secret, tokenFile: /run/token}", None),
        ("{exec: {command: aws}}", None),
        ("{client-certificate-data: YQ==}", None),
    ],
)
def test_only_a_token_in_the_kubeconfig_itself_stays_the_same(
    tmp_path: Path, user: str, token: str | None
) -> None:
    """It is found for a context and for the current one; a plugin's or a file's is renewed."""
    path = tmp_path / "config"
    path.write_text(KUBECONFIG.replace("{token: secret}", user), encoding="utf-8")

    assert written_token(path, advice="") == token
    assert written_token(path, "two", advice="") == token
    assert written_token(path, "three", advice="") is None


def test_a_closed_client_keeps_no_connection() -> None:
    """The library's own close ends its threads and leaves its connections to chance."""
    api_client = client.ApiClient(client.Configuration(host="http://127.0.0.1:1"))
    pools = api_client.rest_client.pool_manager
    pools.connection_from_url("http://127.0.0.1:1")

    Kube(api_client).close()

    assert len(pools.pools) == 0
