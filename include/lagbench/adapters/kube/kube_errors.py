"""Errors of the Kubernetes client as lagbench's own: wrong input, or a world that is not ready."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
from typing import Any

from lagbench.errors import NotAllowed, NotReady, WrongInput

_REFUSED = frozenset({400, 422})
_UNAUTHORIZED, _FORBIDDEN = 401, 403


@contextlib.contextmanager
def translated(what: str, host: str, *, refusable: str | None = None) -> Iterator[None]:
    """Map the client's errors; ``refusable`` names the object whose refusal is the user's fault."""
    from kubernetes.client import ApiException
    from kubernetes.dynamic.exceptions import ResourceNotFoundError
    from urllib3.exceptions import HTTPError

    try:
        yield
    except ApiException as error:
        said = _message(error)
        if error.status in _REFUSED and refusable is not None:
            raise WrongInput(
                where=refusable,
                field="manifest",
                value=said,
                allowed="what the schema of its kind allows",
            ) from error
        is_denied = error.status in {_UNAUTHORIZED, _FORBIDDEN}
        hint = "Check the role of the account" if is_denied else "Try again"
        kind = NotAllowed if error.status == _FORBIDDEN else NotReady
        raise kind(f"could not {what}: {host} answered {error.status}: {said}. {hint}") from error
    except ResourceNotFoundError as error:
        raise NotReady(
            f"could not {what}: {host} does not know that kind ({error}). "
            "A cluster needs KEDA 2.x installed for a ScaledObject"
        ) from error
    except (HTTPError, OSError) as error:
        raise NotReady(
            f"could not {what}: {host} does not answer ({error}). "
            "Bring the bench up (lagbench up) or check the connection kubernetes_default"
        ) from error


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
    """Return the Status object's message, else the reason."""
    body = error.body.decode(errors="replace") if isinstance(error.body, bytes) else error.body
    try:
        return str(json.loads(body or "")["message"])
    except (ValueError, KeyError, TypeError):
        return str(body or error.reason)
