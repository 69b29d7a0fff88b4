"""API errors, each returned to the client as a ``Status`` object."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


class ApiError(Exception):
    """A request that is answered with a failure ``Status``."""

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        *,
        causes: Sequence[dict[str, Any]] = (),
        kind: str = "",
        name: str = "",
    ) -> None:
        """Keep the content of the Status; ``causes`` are StatusCause objects."""
        super().__init__(message)
        self.code, self.reason, self.message = code, reason, message
        self.causes, self.kind, self.name = list(causes), kind, name

    def status(self) -> dict[str, Any]:
        """Return the ``Status`` object of this error."""
        details = {"name": self.name, "kind": self.kind, "causes": self.causes}
        return {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "reason": self.reason,
            "details": {field: value for field, value in details.items() if value},
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
    text = f'{plural} "{name}" already exists'
    return ApiError(409, "AlreadyExists", text, kind=plural, name=name)


def conflict(plural: str, name: str, why: str) -> ApiError:
    """Return the error for a write based on another state of the object."""
    text = f'Operation cannot be fulfilled on {plural} "{name}": {why}'
    return ApiError(409, "Conflict", text, kind=plural, name=name)


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


def not_allowed(message: str) -> ApiError:
    """Return the error for a verb that a kind does not have."""
    return ApiError(405, "MethodNotAllowed", message)
