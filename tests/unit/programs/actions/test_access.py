"""The access of the actions' player to the API server."""

from __future__ import annotations

from pathlib import Path

import pytest
from kubernetes import config
from tests.fakes.kubeconfig import write_kubeconfig

from lagbench.programs.actions.__main__ import api_client


def test_one_failed_call_to_a_cluster_ends_no_action(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a cluster's pod calls are repeated on rejected connections and on 500 and 503."""
    monkeypatch.setattr(config, "load_incluster_config", lambda **_: None)

    retries = api_client({}).configuration.retries

    assert retries.connect > 1
    assert {500, 503} <= set(retries.status_forcelist)


def test_localkube_gets_each_call_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A signal that is sent twice would kill twice."""
    path = write_kubeconfig(tmp_path / "config")
    monkeypatch.setattr(config.kube_config, "KUBE_CONFIG_DEFAULT_LOCATION", str(path))

    assert api_client({"KUBECONFIG": str(path)}).configuration.retries == 0
