"""Errors of the Kubernetes client as lagbench's own: wrong input, or a world that is not ready."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from lagbench.errors import LagbenchError, NotAllowed, NotReady, UnknownKind, WrongInput

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
