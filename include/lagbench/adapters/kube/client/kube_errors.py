"""Errors of the Kubernetes client as lagbench's own: wrong input, or a world that is not ready."""

from __future__ import annotations

import contextlib
import json
import math
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

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
