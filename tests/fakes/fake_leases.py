"""The Leases of an API server in memory, with its clock and its conflicts."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from datetime import UTC, datetime
from email.utils import format_datetime
from types import SimpleNamespace
from typing import Any

from kubernetes.client import ApiException

from lagbench.core.kubernetes_values import NS_PER_SECOND, parse_instant_ns


class FakeLeases:
    """The verbs of ``CoordinationV1Api`` on one Lease; ``before_write`` lets others be faster."""

    def __init__(self) -> None:
        """Begin at noon without a Lease."""
        self.now_ns = parse_instant_ns("2026-11-21T12:00:00Z")
        self.lease: dict[str, Any] | None = None
        self.writes: list[str] = []
        self.before_write: Callable[[], None] = lambda: None
        self.reports_time = True
        self._version = 0

    def __call__(self, api_client: object) -> FakeLeases:
        """Stand for the class of the client."""
        return self

    def read_namespaced_lease(self, name: str, namespace: str, **_how: Any) -> Any:
        """Return the raw answer, as ``_preload_content=False`` does."""
        if self.lease is None:
            raise self._error(404)
        return SimpleNamespace(data=json.dumps(self.lease).encode(), headers=self._headers())

    def create_namespaced_lease(self, namespace: str, body: dict[str, Any], **_how: Any) -> None:
        """Reject a second one."""
        self._race()
        if self.lease is not None:
            raise self._error(409)
        self.store(body)
        self.writes.append("create")

    def replace_namespaced_lease(
        self, name: str, namespace: str, body: dict[str, Any], **_how: Any
    ) -> None:
        """Reject a version that is not the newest."""
        self._race()
        if self.lease is None:
            raise self._error(404)
        self._require_newest(body["metadata"]["resourceVersion"])
        self.store(body)
        self.writes.append("replace")

    def delete_namespaced_lease(
        self, name: str, namespace: str, body: dict[str, Any], **_how: Any
    ) -> None:
        """Delete the version that was seen."""
        self._race()
        if self.lease is None:
            raise self._error(404)
        self._require_newest(body["preconditions"]["resourceVersion"])
        self.lease = None
        self.writes.append("delete")

    def store(self, lease: dict[str, Any]) -> None:
        """Keep it as a new version."""
        self._version += 1
        self.lease = copy.deepcopy(lease)
        self.lease["metadata"] |= {"uid": "u", "resourceVersion": str(self._version)}

    def pass_seconds(self, seconds: float) -> None:
        """Move the API server's clock."""
        self.now_ns += int(seconds * NS_PER_SECOND)

    @property
    def holder(self) -> str | None:
        """The holder of the Lease; None if there is none."""
        return None if self.lease is None else self.lease["spec"]["holderIdentity"]

    def _race(self) -> None:
        faster, self.before_write = self.before_write, lambda: None
        faster()

    def _require_newest(self, version: str) -> None:
        if self.lease is None or version != self.lease["metadata"]["resourceVersion"]:
            raise self._error(409)

    def _headers(self) -> dict[str, str]:
        if not self.reports_time:
            return {}
        now = datetime.fromtimestamp(self.now_ns // NS_PER_SECOND, UTC)
        return {"Date": format_datetime(now, usegmt=True)}

    def _error(self, status: int) -> ApiException:
        error = ApiException(status=status, reason="as configured")
        error.headers = self._headers()
        return error
