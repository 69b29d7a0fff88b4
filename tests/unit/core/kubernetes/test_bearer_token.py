"""When a bearer token ends."""

from __future__ import annotations

import base64
import json

import pytest

from lagbench.core.kubernetes.bearer_token import token_end_seconds


def token_of(claims: object) -> str:
    """Return a JWT with these claims, unpadded as RFC 7515 says; nobody checks its signature."""
    parts = [json.dumps(part).encode() for part in ({"alg": "RS256"}, claims)]
    texts = [base64.urlsafe_b64encode(part).decode().rstrip("=") for part in (*parts, b"signed")]
    return ".".join(texts)


@pytest.mark.parametrize("subject", ["a", "ab", "abc"])
def test_the_end_is_in_the_claims(subject: str) -> None:
    """It is read whatever padding the text lacks."""
    assert token_end_seconds(token_of({"sub": subject, "exp": 1_795_000_000})) == 1_795_000_000


@pytest.mark.parametrize(
    "token", ["secret", "a.b.c", "a.é.c", token_of({"sub": "a"}), token_of([1]), ""]
)
def test_a_token_without_an_end_has_none(token: str) -> None:
    """Tokens of a Secret, and those that are not a JWT, state none."""
    assert token_end_seconds(token) is None
