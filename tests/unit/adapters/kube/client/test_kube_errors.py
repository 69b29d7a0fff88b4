"""Why the API server was not read, in the words that a note repeats."""

from __future__ import annotations

import pytest
from kubernetes.client import ApiException

from lagbench.adapters.kube.client.kube_errors import reason_of, translated
from lagbench.errors import NotReady


@pytest.mark.parametrize(
    ("status", "body", "expected"),
    [
        (503, b'{"message": "apiserver is shutting down"}', "503: apiserver is shutting down"),
        (500, "two\nlines", "500: two lines"),
    ],
)
def test_what_the_api_server_answered_is_one_line(status: int, body: object, expected: str) -> None:
    """Status and message are told, its headers are not."""
    error = ApiException(status=status, reason="ignored")
    error.body = body
    error.headers = {"Audit-Id": "1"}

    assert reason_of(error).endswith(f" {expected}")


def test_another_error_is_reported_in_one_line_too() -> None:
    """Without words it is its type."""
    assert reason_of(OSError("a\n  b")) == "a b"
    assert reason_of(TimeoutError()) == "TimeoutError"


@pytest.mark.parametrize(("status", "hint"), [(401, "runner-kubeconfig.sh"), (403, "role")])
def test_an_account_that_is_rejected_is_told_what_to_do(status: int, hint: str) -> None:
    """401 is a log-in that has ended, which no role changes; 403 is a missing right."""
    with pytest.raises(NotReady, match=hint), translated("list Pod", "https://api"):
        raise ApiException(status=status, reason="no")
