"""Logging in, and what is said when that fails."""

from __future__ import annotations

from pathlib import Path

import pytest

from lagbench.adapters.kube.client.kube_connection import log_in, written_token
from lagbench.errors import NotReady

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
