"""Ask a Prometheus server: for a query's value as KEDA does, and for its course over a period."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote_plus, urlsplit

import urllib3

from lagbench.core.keda.triggers.prometheus_parameters import PrometheusTrigger
from lagbench.errors import NotReady, WrongInput

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


_PAGE_POINTS = 2_000
"""Of a series in one answer: Prometheus rejects more than 11,000, and a proxy or a store behind it
may allow less."""
_RANGE_SECONDS, _LONGEST_ERROR = 60.0, 300
_REFUSED = {400, 422}
_LOGIN = {401, 403}


@dataclass(frozen=True, slots=True)
class Series:
    """A series of a range: its labels, and its value by Unix second; NaN and ±Inf as they came."""

    labels: dict[str, str]
    values: dict[int, float]


class PrometheusRange:
    """Asks a Prometheus server, or one that speaks its API, for a query over a period."""

    def __init__(self, url: str, *, token: str = "", ca_file: Path | None = None) -> None:
        """Take the URL before ``/api/v1``; with a bearer token, and a CA that no system trusts."""
        try:
            parts = urlsplit(url)
        except ValueError:
            parts = urlsplit("")
        if not _SCHEME.match(url) or not parts.hostname or parts.username or parts.query:
            allowed = "http:// or https://, host and path, without a login (--token-file)"
            value = f"{parts.scheme}://…@{parts.hostname}" if parts.username else url
            raise WrongInput(where="command line", field="--url", value=value, allowed=allowed)
        self._url, self._where = url.rstrip("/"), f"Prometheus at {url}"
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._connections = urllib3.PoolManager(
            timeout=urllib3.Timeout(connect=10.0, read=_RANGE_SECONDS),
            # Behind a redirect there is a login page; it would get the token, too.
            retries=urllib3.Retry(total=2, redirect=0, status=0, raise_on_redirect=False),
            ca_certs=None if ca_file is None else str(ca_file),
        )

    def ask(
        self, query: str, first: int, last: int, step: int, *, page: int = _PAGE_POINTS
    ) -> list[Series]:
        """Return the query's series at ``first``, ``first + step``, … ``last`` (Unix seconds).

        :raises NotReady: no answer, or not that of a Prometheus.
        :raises WrongInput: the query, or the login, is refused.
        """
        found: dict[str, Series] = {}
        for start in range(first, last + 1, page * step):
            end = min(last, start + (page - 1) * step)
            for labels, values in self._page(query, start, end, step):
                series = found.setdefault(repr(sorted(labels.items())), Series(labels, {}))
                series.values.update(values)
        return list(found.values())

    def _page(
        self, query: str, start: int, end: int, step: int
    ) -> Iterator[tuple[dict[str, str], dict[int, float]]]:
        fields = {"query": query, "start": str(start), "end": str(end), "step": str(step)}
        try:
            answer = self._connections.request(
                "GET", f"{self._url}/api/v1/query_range", fields=fields, headers=self._headers
            )
        except (urllib3.exceptions.HTTPError, OSError) as error:
            cause = getattr(error, "reason", None) or error
            raise NotReady(f"{self._where}: {str(cause).rpartition('>: ')[2]}") from error
        try:
            document = json.loads(answer.data)
            status, said = document["status"], str(document.get("error", ""))[:_LONGEST_ERROR]
        except (ValueError, KeyError, TypeError):
            status, said = "none", ""
        if answer.status in _LOGIN:
            allowed = f"a token that may query (HTTP {answer.status})"
            raise WrongInput(where=self._where, field="--token-file", value="", allowed=allowed)
        if answer.status in _REFUSED and status == "error":
            raise WrongInput(where=self._where, field="--query", value=query, allowed=said)
        if status != "success":
            seen = said or f"{answer.headers.get('Content-Type', 'no type')}, no answer of its API"
            told = "is the URL that of a Prometheus, up to /api/v1?"
            raise NotReady(f"{self._where}: HTTP {answer.status}, {seen}; {told}")
        for series in document["data"]["result"]:
            values = {round(float(at)): float(text) for at, text in series.get("values", ())}
            yield series["metric"], values

    def close(self) -> None:
        """Close the connections."""
        self._connections.clear()
