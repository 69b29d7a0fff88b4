"""The API answers only who sends its token."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
from cryptography import x509
from starlette.testclient import TestClient

from localkube import state_folder
from localkube.api.api_app import ApiServer
from localkube.api.api_discovery_answers import discovery_document
from localkube.kinds import BUILT_IN, DEPLOYMENT, NAMESPACE, POD, parse_path
from localkube.kube_objects import ApiError
from localkube.state_folder import Identity


@pytest.mark.parametrize(
    ("header", "code"),
    [({}, 401), ({"authorization": "Bearer x"}, 401), ({"authorization": "Bearer right"}, 200)],
)
def test_a_request_without_the_token_is_refused(header: dict[str, str], code: int) -> None:
    """Neither without a header nor with another token."""
    api = ApiServer(BUILT_IN, *[Mock()] * 6, token="right")  # noqa: S106 - of this test alone

    assert TestClient(api.application()).get("/api/v1", headers=header).status_code == code


def test_an_empty_folder_gives_a_new_identity(tmp_path: Path) -> None:
    """Each has a token and a certificate of its own, and no port yet."""
    first, second = Identity.kept(tmp_path), Identity.kept(tmp_path)

    assert first.port == 0
    assert first.token != second.token
    assert first.certificate != second.certificate


def test_what_was_kept_is_found_again(tmp_path: Path) -> None:
    """Port, token, authority and key are the same at the next start, in a private file."""
    known = Identity.kept(tmp_path).model_copy(update={"port": 40123})
    known.keep(tmp_path)

    assert Identity.kept(tmp_path) == known
    assert (tmp_path / state_folder.IDENTITY_FILE).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("content", ["", "{", '{"port": 1}', '{"port": 70000, "token": "x"}'])
def test_an_unreadable_file_is_replaced(tmp_path: Path, content: str) -> None:
    """A file that was cut off or altered is no reason not to start."""
    (tmp_path / state_folder.IDENTITY_FILE).write_text(content)

    assert Identity.kept(tmp_path).port == 0


def test_a_certificate_is_replaced_before_it_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No client is left with a certificate that ends within 30 days."""
    known = Identity.kept(tmp_path).model_copy(update={"port": 40123})
    known.keep(tmp_path)
    ends_at = x509.load_pem_x509_certificate(known.certificate.encode()).not_valid_after_utc
    lasts = ends_at - datetime.now(UTC)

    monkeypatch.setattr(state_folder, "_REMAINING", lasts - timedelta(hours=1))
    assert Identity.kept(tmp_path) == known
    monkeypatch.setattr(state_folder, "_REMAINING", lasts + timedelta(hours=1))
    assert Identity.kept(tmp_path).token != known.token


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
    groups = discovery_document("/apis", BUILT_IN) or {}
    names = {"", *(group["name"] for group in groups["groups"])}

    for row in BUILT_IN:
        found = (discovery_document(row.prefix, BUILT_IN) or {})["resources"]
        listed = {entry["name"]: entry for entry in found}
        assert listed[row.plural]["kind"] == row.kind
        assert (f"{row.plural}/scale" in listed) is ("scale" in row.subresources)
        assert (f"{row.plural}/status" in listed) is row.has_status
        assert row.group in names
    assert (discovery_document("/openapi/v3", BUILT_IN) or {})["paths"]["apis/apps/v1"]
    assert discovery_document("/apis/nothing.example", BUILT_IN) is None


def test_a_certificate_of_another_authority_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An earlier version signed it by an authority of its own: no client could verify it now."""
    Identity.kept(tmp_path).model_copy(update={"port": 40123}).keep(tmp_path)
    signed = SimpleNamespace(
        issuer="an authority",
        subject="localkube",
        not_valid_after_utc=datetime.max.replace(tzinfo=UTC),
    )
    monkeypatch.setattr(x509, "load_pem_x509_certificate", lambda _: signed)

    assert Identity.kept(tmp_path).port == 0
