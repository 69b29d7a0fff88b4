"""The API answers only who sends its token."""

from __future__ import annotations

from dataclasses import replace
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
from localkube.kinds import BUILT_IN, parse_path
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


def test_an_identity_is_found_again_at_the_next_start(tmp_path: Path) -> None:
    """It lies in a private file; another folder has another token and certificate."""
    first, other = Identity.kept(tmp_path), Identity.kept(tmp_path)
    known = replace(first, port=40123)
    known.keep(tmp_path)

    assert first.port == 0
    assert first.token != other.token
    assert first.certificate != other.certificate
    assert Identity.kept(tmp_path) == known
    assert (tmp_path / state_folder.IDENTITY_FILE).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("content", ["", "{", '{"port": 1}', '{"port": 70000, "token": "x"}'])
def test_an_unreadable_file_is_replaced(tmp_path: Path, content: str) -> None:
    """A file that was cut off or altered is no reason not to start."""
    (tmp_path / state_folder.IDENTITY_FILE).write_text(content)

    assert Identity.kept(tmp_path).port == 0


@pytest.mark.parametrize(
    ("days_left", "issuer", "is_kept"),
    [(31, "localkube", True), (29, "localkube", False), (31, "an authority", False)],
)
def test_a_certificate_is_replaced_before_clients_cannot_verify_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, days_left: int, issuer: str, *, is_kept: bool
) -> None:
    """When it ends within 30 days; when an earlier version signed it by an authority of its own."""
    known = replace(Identity.kept(tmp_path), port=40123)
    known.keep(tmp_path)
    ends_at = datetime.now(UTC) + timedelta(days=days_left)
    found = SimpleNamespace(issuer=issuer, subject="localkube", not_valid_after_utc=ends_at)
    monkeypatch.setattr(x509, "load_pem_x509_certificate", lambda _: found)

    assert (Identity.kept(tmp_path) == known) is is_kept


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
    assert (discovery_document("/version", BUILT_IN, "1.37") or {})["minor"] == "37"
    assert discovery_document("/apis/nothing.example", BUILT_IN) is None
