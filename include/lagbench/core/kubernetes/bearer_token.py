"""Read when a bearer token ends, from the token itself: RFC 7519, as service accounts have it."""

from __future__ import annotations

import base64
import json


def token_end_seconds(token: str) -> float | None:
    """Return the token's ``exp`` in Unix seconds; None: none is stated, or it is not a JWT."""
    parts = token.split(".")
    if len(parts) != 3:
        return None
    padded = parts[1] + "=" * (-len(parts[1]) % 4)
    try:
        claims = json.loads(base64.urlsafe_b64decode(padded))
    except ValueError:  # neither base64 nor JSON
        return None
    end = claims.get("exp") if isinstance(claims, dict) else None
    return float(end) if isinstance(end, int | float) else None
