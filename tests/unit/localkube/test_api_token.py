"""The API answers only who sends its token."""

from unittest.mock import Mock

import pytest
from starlette.testclient import TestClient

from lagbench.localkube.api.app import ApiServer


@pytest.mark.parametrize(
    ("header", "code"),
    [({}, 401), ({"authorization": "Bearer x"}, 401), ({"authorization": "Bearer right"}, 200)],
)
def test_a_request_without_the_token_is_refused(header: dict[str, str], code: int) -> None:
    """Neither without a header nor with another token."""
    api = ApiServer(*[Mock()] * 7, token="right")  # noqa: S106 - of this test alone

    assert TestClient(api.application()).get("/api/v1", headers=header).status_code == code
