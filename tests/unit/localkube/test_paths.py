"""The table of kinds, the paths it is served at, and what discovery says of it."""

from __future__ import annotations

import pytest

from lagbench.localkube.api.discovery import discovery_document
from lagbench.localkube.api_error import ApiError
from lagbench.localkube.storage.resources import DEPLOYMENT, NAMESPACE, POD, TABLE, parse_path


def test_paths_are_understood() -> None:
    """Collections, objects and subresources, with and without namespace."""
    every_pod = parse_path("/api/v1/pods")
    log = parse_path("/api/v1/namespaces/bench/pods/p-1/log")
    scale = parse_path("/apis/apps/v1/namespaces/bench/deployments/web/scale")
    namespace = parse_path("/api/v1/namespaces/bench")

    assert (every_pod.resource, every_pod.namespace, every_pod.name) == (POD, "", "")
    assert (log.namespace, log.name, log.subresource) == ("bench", "p-1", "log")
    assert (scale.resource, scale.subresource) == (DEPLOYMENT, "scale")
    assert (namespace.resource, namespace.name) == (NAMESPACE, "bench")


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/api/v1",
        "/apis/apps/v1/namespaces/bench/daemonsets",
        "/apis/apps/v2/deployments",
        "/api/v1/namespaces/bench/pods/p/exec",
        "/api/v1/namespaces/bench/configmaps/c/scale",
        "/api/v1/pods/p",
        "/api/v1/namespaces/bench/pods/p/log/more",
    ],
)
def test_anything_else_is_a_clear_404(path: str) -> None:
    """What localkube does not serve is named in a NotFound."""
    with pytest.raises(ApiError) as refused:
        parse_path(path)

    assert refused.value.code == 404
    assert path in refused.value.message


def test_discovery_lists_every_kind_of_the_table() -> None:
    """Each row is in its group's list, with its subresources, and its group in the group list."""
    groups = {group["name"] for group in (discovery_document("/apis") or {})["groups"]}

    for row in TABLE:
        listed = {
            entry["name"]: entry for entry in (discovery_document(row.prefix) or {})["resources"]
        }
        assert listed[row.plural]["kind"] == row.kind
        assert (f"{row.plural}/scale" in listed) is ("scale" in row.subresources)
        assert (f"{row.plural}/status" in listed) is row.has_status
        assert not row.group or row.group in groups
    assert (discovery_document("/openapi/v3") or {})["paths"]["apis/keda.sh/v1alpha1"]
    assert discovery_document("/apis/nothing.example") is None
