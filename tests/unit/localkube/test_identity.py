"""What clients know of a localkube outlasts it, as long as it can be used."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509

from lagbench.localkube import state_folder
from lagbench.localkube.state_folder import Identity


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
