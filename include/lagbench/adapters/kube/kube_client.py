"""Log in with the official Kubernetes client, name its errors, discover kinds, list and watch."""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from lagbench.core.object_meta import subdomain_problems
from lagbench.errors import LagbenchError, NotAllowed, NotReady, UnknownKind, WrongInput

if TYPE_CHECKING:
    from kubernetes.client import ApiClient
    from urllib3 import Retry

_REFUSED = frozenset({400, 422})

_UNAUTHORIZED, _FORBIDDEN, _NOT_FOUND = 401, 403, 404

_HINTS = {
    _UNAUTHORIZED: "The log-in has ended or is not valid: write a new kubeconfig "
    "(k8s/runner-kubeconfig.sh) or log in again",
    _FORBIDDEN: "Check the role of the account",
}


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a call of the client failed."""

    cause: Literal["answer", "unknown kind", "no answer"]
    text: str
    status: int = 0
    """The HTTP status of the answer; 404 for an unknown kind."""


@contextlib.contextmanager
def mapped(to_error: Callable[[Failure], LagbenchError]) -> Iterator[None]:
    """Raise what ``to_error`` makes of an error of the client."""
    from kubernetes.client import ApiException
    from kubernetes.dynamic.exceptions import ResourceNotFoundError, ResourceNotUniqueError
    from urllib3.exceptions import HTTPError

    try:
        yield
    except ApiException as error:
        raise to_error(Failure("answer", _message(error), int(error.status or 0))) from error
    except (ResourceNotFoundError, ResourceNotUniqueError) as error:
        raise to_error(Failure("unknown kind", str(error), _NOT_FOUND)) from error
    except (HTTPError, OSError, ValueError) as error:  # ValueError: an answer that is not JSON
        raise to_error(Failure("no answer", str(error))) from error


def translated(
    what: str, host: str, *, refusable: str | None = None
) -> contextlib.AbstractContextManager[None]:
    """Map the client's errors to the two families of lagbench's errors.

    ``refusable`` names the object whose rejection is the user's error.
    """

    def to_error(failure: Failure) -> LagbenchError:
        if failure.status in _REFUSED and refusable is not None:
            return WrongInput(
                where=refusable,
                field="manifest",
                value=failure.text,
                allowed="a value that the schema of its kind allows",
            )
        return _not_ready(failure, f"could not {what}: {host}")

    return mapped(to_error)


def _not_ready(failure: Failure, tried: str) -> NotReady:
    if failure.cause == "unknown kind":
        return UnknownKind(
            f"{tried} does not serve that kind ({failure.text}). "
            "A cluster needs KEDA 2.x installed for a ScaledObject"
        )
    if failure.cause == "no answer":
        return NotReady(
            f"{tried} does not answer ({failure.text}). "
            "Bring the bench up (lagbench up) or check the connection kubernetes_default"
        )
    hint = _HINTS.get(failure.status, "Try again")
    kind = NotAllowed if failure.status == _FORBIDDEN else NotReady
    return kind(f"{tried} answered {failure.status}: {failure.text}. {hint}")


def reason_of(error: Exception) -> str:
    """Return why a reading failed in one line; what the API server answered without its headers."""
    status = getattr(error, "status", None)
    if status is not None and hasattr(error, "body"):  # an ApiException of a watch
        return f"the API server answered {status}: {' '.join(_message(error).split())}"
    return " ".join(str(error).split()) or type(error).__name__


def describe(manifest: Mapping[str, Any]) -> str:
    """Return an object's kind and name."""
    return f"{manifest['kind']}/{manifest['metadata']['name']}"


def _message(error: Any) -> str:
    """Return the Status object's message, else the body, else status and reason."""
    body = error.body.decode(errors="replace") if isinstance(error.body, bytes) else error.body
    try:
        return str(json.loads(body or "")["message"])
    except (ValueError, KeyError, TypeError):
        return str(body or f"{error.status} {error.reason}")


# A file that cannot exist: the library then reads no cache and does not mind that it writes none.
_NO_CACHE_FILE = f"{os.devnull}/none"


class KubeKinds:
    """The kinds of an API server; several threads may use them."""

    def __init__(self, api_client: ApiClient) -> None:
        """Use ``api_client``; the server is asked at the first call of ``resource``."""
        self._api_client = api_client
        self._dynamic: Any = None
        self._lock = threading.Lock()

    def resource(self, api_version: str, kind: str) -> Any:
        """Return the dynamic client's resource of a kind."""
        with self._lock:
            if self._dynamic is None:
                from kubernetes.dynamic import DynamicClient

                self._dynamic = DynamicClient(self._api_client, cache_file=_NO_CACHE_FILE)
            return self._dynamic.resources.get(api_version=api_version, kind=kind)


OUTAGE_SECONDS = 45.0
"""Patience of calls that have to succeed: an upgrade of an API server's host takes less."""

_LONGEST_PAUSE_SECONDS = 2.0

_FIRST_PAUSES = 3
"""0, 0.5 and 1 s; all later ones are the longest."""

_NOT_NOW = (429, 500, 502, 503, 504)
"""500 too: a leader's change in etcd, or a webhook without an answer."""

_BROKEN_ANSWERS = 3


def patient_retries(patience_seconds: float) -> Retry | int:
    """Return retries that last for ``patience_seconds`` while connections are rejected.

    Without patience a call is tried once more.

    Every verb is tried again, also one whose answer was lost: an apply and a delete say the same
    twice, and a create finds its own object and leaves it.
    """
    if not patience_seconds:
        return 1
    from urllib3 import Retry

    tries = _FIRST_PAUSES + math.ceil(patience_seconds / _LONGEST_PAUSE_SECONDS)
    return Retry(
        total=None,
        connect=tries,
        read=_BROKEN_ANSWERS,
        status=tries,
        other=0,
        allowed_methods=None,
        status_forcelist=_NOT_NOW,
        raise_on_status=False,  # the last answer then becomes an error of the client
        backoff_factor=0.25,
        backoff_max=_LONGEST_PAUSE_SECONDS,
    )


def log_in(
    kubeconfig: Path | str | None = None,
    *,
    context: str | None = None,
    is_in_cluster: bool = False,
    retries: Retry | int,
    pool_size: int | None = None,
    advice: str,
) -> ApiClient:
    """Return a client of the API server that a kubeconfig names (None: where kubectl looks).

    The library's default configuration, which all threads share, stays as it is.

    :param is_in_cluster: use the pod's service account instead.
    :param pool_size: connections that are kept open; None: the library's default.
    :param advice: ends the error text: the next step for the user.
    """
    from kubernetes import client, config

    configuration = client.Configuration()
    try:
        if is_in_cluster:
            config.load_incluster_config(client_configuration=configuration)
        else:
            config.load_kube_config(
                config_file=None if kubeconfig is None else str(kubeconfig),
                context=context,
                client_configuration=configuration,
                persist_config=False,
            )
    except (config.ConfigException, OSError) as error:
        place = kubeconfig or ("(in-cluster)" if is_in_cluster else "(default)")
        raise NotReady(
            f"the kubeconfig {place} cannot be used: {str(error).rstrip('.')}. {advice}"
        ) from error
    configuration.retries = retries
    if pool_size is not None:
        configuration.connection_pool_maxsize = pool_size
    return client.ApiClient(configuration)


def known_contexts(kubeconfig: Path | str | None, *, advice: str) -> dict[str, str | None]:
    """Return the contexts of a kubeconfig (None: where kubectl looks) with their namespaces.

    :param advice: ends the error text: the next step for the user.
    :raises NotReady: the kubeconfig cannot be used.
    """
    merged = _merged(kubeconfig, advice)
    known = [node.value for node in merged["contexts"]]
    return {item["name"]: (item.get("context") or {}).get("namespace") for item in known}


def written_token(
    kubeconfig: Path | str | None, context: str | None = None, *, advice: str
) -> str | None:
    """Return the token that a kubeconfig has for a context; None: it logs in by another way.

    Tokens of a plugin or of a file are left out: both are renewed.

    :param context: None: the current one.
    :param advice: ends the error text: the next step for the user.
    :raises NotReady: the kubeconfig cannot be used.
    """
    merged = _merged(kubeconfig, advice)
    context = context or merged.safe_get("current-context")
    used = _entry(merged, "contexts", context).get("context") or {}
    user = _entry(merged, "users", used.get("user")).get("user") or {}
    token = user.get("token")
    return None if not token or user.get("tokenFile") else str(token)


def _entry(merged: Any, kind: str, name: str | None) -> Mapping[str, Any]:
    """Return the entry of that name in a list of a kubeconfig; empty: there is none."""
    known = [node.value for node in merged.safe_get(kind) or ()]
    return next((item for item in known if item["name"] == name), {})


def _merged(kubeconfig: Path | str | None, advice: str) -> Any:
    import yaml
    from kubernetes.config import ConfigException, kube_config

    place = str(kubeconfig or kube_config.KUBE_CONFIG_DEFAULT_LOCATION)
    try:
        # list_kube_config_contexts rejects a kubeconfig without a current context
        merged = kube_config.KubeConfigMerger(place).config
    except (ConfigException, OSError, yaml.YAMLError) as error:
        raise NotReady(
            f"the kubeconfig {place} cannot be used: {str(error).rstrip('.')}. {advice}"
        ) from error
    if merged is None:
        raise NotReady(f"there is no kubeconfig {place}. {advice}")
    return merged


def get(
    api_client: ApiClient,
    path: str,
    *,
    timeout_seconds: float | tuple[float, float],
    query: Mapping[str, object] | None = None,
) -> Any:
    """Return the answer to a GET with its body unread, as urllib3 has it."""
    return api_client.call_api(
        path,
        "GET",
        query_params=list((query or {}).items()),
        header_params={"Accept": "application/json"},
        auth_settings=["BearerToken"],
        _preload_content=False,
        _return_http_data_only=True,
        _request_timeout=timeout_seconds,
    )


_WARNING = re.compile(r'299 \S+ "((?:[^"\\]|\\.)*)"')

_ESCAPED = re.compile(r"\\(.)")


def warnings_of(headers: Sequence[str]) -> tuple[str, ...]:
    """Return the texts of headers ``Warning``, in their order; several may be in one header.

    The API server writes ``299 - "TEXT"`` (RFC 7234, section 5.5), with quotes and backslashes
    escaped.
    """
    found = (text for header in headers for text in _WARNING.findall(header))
    return tuple(_ESCAPED.sub(r"\1", text) for text in found)


_CALL_LIMIT_SECONDS = 10.0

_NOT_FOUND_API_DISCOVERY = 404


class ApiDiscovery:
    """The kinds of an API server; a group is asked for when it is first wanted."""

    def __init__(self, api_client: ApiClient) -> None:
        """Use ``api_client``; nothing is asked of the server yet."""
        self._api_client = api_client
        self._known: dict[str, frozenset[tuple[str, str]]] = {}

    def kinds(self, group: str) -> frozenset[tuple[str, str]]:
        """Return apiVersion and kind of all that a group serves; none when it is not there.

        :raises NotReady: the server does not say.
        """
        if group not in self._known:
            self._known[group] = frozenset(self._ask_group(group))
        return self._known[group]

    def _ask_group(self, group: str) -> list[tuple[str, str]]:
        if not group:
            return self._ask_version("v1", "/api/v1")
        if any(subdomain_problems(group)):
            return []  # no group can have that name, and it would be part of a path
        versions = self._ask(f"/apis/{group}").get("versions") or []
        found = [str(item["groupVersion"]) for item in versions]
        return [pair for version in found for pair in self._ask_version(version)]

    def _ask_version(self, version: str, path: str = "") -> list[tuple[str, str]]:
        resources = self._ask(path or f"/apis/{version}").get("resources") or []
        return [(version, str(item["kind"])) for item in resources if "/" not in item["name"]]

    def _ask(self, path: str) -> dict[str, Any]:
        """Return a document of the discovery; empty when there is none."""
        from kubernetes.client import ApiException

        host = self._api_client.configuration.host
        with translated(f"ask which kinds are served below {path}", host):
            try:
                answer = get(self._api_client, path, timeout_seconds=_CALL_LIMIT_SECONDS)
            except ApiException as error:
                if error.status == _NOT_FOUND_API_DISCOVERY:
                    return {}
                raise
            return dict(json.loads(answer.data))


Event = tuple[str, Mapping[str, Any]]
"""ADDED, MODIFIED, DELETED, BOOKMARK or ERROR with the object; LISTED with a whole list."""


@dataclass(frozen=True, slots=True)
class WatchTimes:
    """Time limits of a list, of a watch, and of the silence after the end of a watch."""

    list_seconds: float
    watch_seconds: int
    """The server ends the watch after this time."""
    overdue_seconds: float


def list_and_watch(
    api_client: ApiClient,
    path: str,
    times: WatchTimes,
    *,
    selection: Mapping[str, str] | None = None,
) -> Iterator[Event]:
    """Yield one list of the objects below ``path``, then changes until the server ends the watch.

    ``selection`` holds query parameters: the label or field selector.
    """
    selected = dict(selection or {})
    listed = json.loads(
        get(api_client, path, timeout_seconds=times.list_seconds, query=selected).data
    )
    yield "LISTED", listed
    watch = {
        "watch": "true",
        "resourceVersion": listed["metadata"].get("resourceVersion", ""),
        "timeoutSeconds": times.watch_seconds,
    }
    limits = (times.list_seconds, times.watch_seconds + times.overdue_seconds)
    answer = get(api_client, path, timeout_seconds=limits, query={**selected, **watch})
    try:
        for line in _lines(answer.stream(amt=None, decode_content=False)):
            event = json.loads(line)
            yield event["type"], event["object"]
    finally:
        answer.close()  # else a connection with an unread rest of the answer would be used again
        answer.release_conn()


def _lines(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """Split a stream at line ends."""
    rest = b""
    for chunk in chunks:
        *lines, rest = (rest + chunk).split(b"\n")
        yield from (line for line in lines if line.strip())
