"""API errors, each returned to the client as a ``Status`` object."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lagbench.localkube.objects import JsonObject


class ApiError(Exception):
    """A request that is answered with a failure ``Status``."""

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        *,
        causes: Sequence[JsonObject] = (),
        kind: str = "",
        name: str = "",
    ) -> None:
        """Keep the content of the Status; ``causes`` are StatusCause objects."""
        super().__init__(message)
        self.code, self.reason, self.message = code, reason, message
        self.causes, self.kind, self.name = list(causes), kind, name

    def status(self) -> JsonObject:
        """Return the ``Status`` object of this error."""
        details: JsonObject = {}
        if self.name:
            details["name"] = self.name
        if self.kind:
            details["kind"] = self.kind
        if self.causes:
            details["causes"] = self.causes
        return {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "reason": self.reason,
            "details": details,
            "code": self.code,
        }


def not_found(plural: str, name: str) -> ApiError:
    """Return the error for an object that does not exist."""
    return ApiError(404, "NotFound", f'{plural} "{name}" not found', kind=plural, name=name)


def no_such_path(path: str) -> ApiError:
    """Return the error for a kind or path that localkube does not serve."""
    return ApiError(
        404,
        "NotFound",
        f"the server could not find the requested resource: localkube does not serve {path}",
    )


def already_exists(plural: str, name: str) -> ApiError:
    """Return the error for creating an object that already exists."""
    return ApiError(
        409, "AlreadyExists", f'{plural} "{name}" already exists', kind=plural, name=name
    )


def stale_version(plural: str, name: str) -> ApiError:
    """Return the error for a write based on an outdated resourceVersion."""
    return ApiError(
        409,
        "Conflict",
        f'Operation cannot be fulfilled on {plural} "{name}": the object has been modified; '
        "please apply your changes to the latest version and try again",
        kind=plural,
        name=name,
    )


def invalid(kind: str, name: str, causes: Sequence[tuple[str, str]]) -> ApiError:
    """Return the error for an object whose fields break the rules; ``causes``: (field, message)."""
    text = ", ".join(f"{field}: {message}" for field, message in causes)
    return ApiError(
        422,
        "Invalid",
        f'{kind} "{name}" is invalid: {text}',
        kind=kind,
        name=name,
        causes=[
            {"reason": "FieldValueInvalid", "field": field, "message": message}
            for field, message in causes
        ],
    )


def bad_request(message: str) -> ApiError:
    """Return the error for a request that cannot be understood."""
    return ApiError(400, "BadRequest", message)


def expired(version: str) -> ApiError:
    """Return the error for a watch from a version that the history no longer has."""
    return ApiError(410, "Expired", f"too old resource version: {version}")
