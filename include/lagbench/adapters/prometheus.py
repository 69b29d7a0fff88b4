"""Ask a Prometheus server for a query's value, with the request that KEDA sends."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from urllib.parse import quote_plus

import urllib3

from lagbench.core.keda.triggers.prometheus_parameters import PrometheusTrigger
from lagbench.errors import NotReady

# The operator's default of KEDA_HTTP_DEFAULT_TIMEOUT.
DEFAULT_TIMEOUT_SECONDS = 3.0
_MOST_REDIRECTS = 10
_SCHEME = re.compile(r"https?://", re.IGNORECASE)
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


class PrometheusClient:
    """Keeps the connections to one server."""

    def __init__(self, trigger: PrometheusTrigger, server_address: str) -> None:
        """Ask ``server_address``, which is where the trigger's own address is reached."""
        self._trigger = trigger
        self._server_address = server_address
        self._limit_seconds = trigger.timeout_seconds or DEFAULT_TIMEOUT_SECONDS
        self._connections = urllib3.PoolManager(
            timeout=urllib3.Timeout(total=self._limit_seconds),
            retries=urllib3.Retry(total=_MOST_REDIRECTS, connect=0, read=0, status=0, other=0),
            cert_reqs="CERT_NONE" if trigger.unsafe_ssl else "CERT_REQUIRED",
        )

    def ask(self, at: datetime | None = None) -> tuple[int, bytes]:
        """Return status and body of the answer, for ``at`` (default: now)."""
        trigger = self._trigger
        headers = {**trigger.custom_headers, **trigger.login.headers}
        for name in headers:
            if not _HEADER_NAME.fullmatch(name):
                raise NotReady(f"Prometheus at {trigger.server_address}: invalid header name")
        if not _SCHEME.match(self._server_address):
            raise NotReady(f"Prometheus at {trigger.server_address}: no http:// or https:// URL")
        try:
            answer = self._connections.request(
                "GET", self._url(at or datetime.now(UTC)), headers=headers
            )
        except (urllib3.exceptions.HTTPError, ValueError) as error:
            reason = self._reason(error)
            raise NotReady(f"Prometheus at {trigger.server_address}: {reason}") from error
        return answer.status, answer.data

    def close(self) -> None:
        """Close the connections."""
        self._connections.clear()

    def _reason(self, error: Exception) -> str:
        """Return a text that is the same each time, so that events of it are counted as one."""
        cause = getattr(error, "reason", None) or error
        is_refused = isinstance(cause, urllib3.exceptions.NewConnectionError)  # a TimeoutError, too
        if isinstance(cause, urllib3.exceptions.TimeoutError) and not is_refused:
            return f"no answer within {self._limit_seconds:g} s"
        # Some begin with the connection, which may name an address in memory.
        return str(cause).rpartition(">: ")[2] or type(cause).__name__

    def _url(self, at: datetime) -> str:
        """Return the URL as KEDA joins it: whole seconds, and a namespace that is not escaped."""
        trigger = self._trigger
        url = (
            f"{self._server_address}/api/v1/query?query={quote_plus(trigger.query)}"
            f"&time={at.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"
        )
        if trigger.namespace:
            url += f"&namespace={trigger.namespace}"
        for key, value in trigger.query_parameters.items():
            url += f"&{quote_plus(key)}={quote_plus(value)}"
        return url
