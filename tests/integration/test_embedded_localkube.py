"""localkube as the bench starts it: empty each time, and yet the same cluster to its clients."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from kubernetes import watch
from kubernetes.client import ApiException, CoreV1Api
from kubernetes.config import new_client_from_config

from lagbench.embedded.bench_state import BenchFiles, LocalkubeProcess

pytestmark = pytest.mark.slow


def test_a_watch_of_an_earlier_life_is_told_to_list_again(tmp_path: Path) -> None:
    """Prometheus resumes its watch after a crash of the bench, and must not wait for the past."""
    files = BenchFiles(tmp_path)
    with running(files) as first:
        seen = first.list_namespace().metadata.resource_version

    with running(files) as second:
        stream = watch.Watch().stream
        events = stream(second.list_namespace, resource_version=seen, timeout_seconds=30)
        with pytest.raises(ApiException) as refused:
            next(events)

    assert refused.value.status == 410


def test_nothing_but_what_clients_rely_on_outlasts_it(tmp_path: Path) -> None:
    """A file that another start left is gone; kubeconfig and identity are as before."""
    files = BenchFiles(tmp_path)
    with running(files):
        before = files.kubeconfig.read_bytes(), files.localkube_identity.read_bytes()
        (files.localkube / "left").touch()

    with running(files):
        assert (files.kubeconfig.read_bytes(), files.localkube_identity.read_bytes()) == before
        assert not (files.localkube / "left").exists()


@contextmanager
def running(files: BenchFiles) -> Iterator[CoreV1Api]:
    """Run a localkube for the time of the block; provide a client of it."""
    process = LocalkubeProcess(files)
    process.launch(os.environ)
    try:
        process.await_serving()
        yield CoreV1Api(new_client_from_config(str(files.kubeconfig)))
    finally:
        process.stop()
