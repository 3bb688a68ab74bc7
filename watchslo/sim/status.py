"""The errors of the simulated apiserver, one function for each, worded as in kube-apiserver. The module is pure."""

from collections.abc import Mapping
from typing import Any

from watchslo.sim.kinds import ResourceKind


class StatusError(Exception):
    """A refused request: an HTTP status code and its `Status` object."""

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        details: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details

    def __str__(self) -> str:
        return f"{self.code} {self.reason}: {self.message}"

    @property
    def retry_after(self) -> int | None:
        """The value of the Retry-After header, in whole seconds; None for no header."""
        return self.details.get("retryAfterSeconds") if self.details else None

    def document(self) -> dict[str, Any]:
        return {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            **({"reason": self.reason} if self.reason else {}),
            **({"details": self.details} if self.details is not None else {}),
            "code": self.code,
        }


def bad_request(message: str) -> StatusError:
    """Return the error for a malformed request."""
    return StatusError(400, "BadRequest", message)


def unauthorized() -> StatusError:
    """Return the error for a missing or wrong token."""
    return StatusError(401, "Unauthorized", "Unauthorized")


def forbidden(kind: ResourceKind, verb: str, namespace: str | None) -> StatusError:
    """Return the error for a verb that this identity may not use on the resource."""
    scope = f'in the namespace "{namespace}"' if namespace else "at the cluster scope"
    return StatusError(
        403,
        "Forbidden",
        f'{kind.key} is forbidden: User "watchslo" cannot {verb} resource "{kind.plural}" '
        f'in API group "{kind.group}" {scope}',
        _details(kind, None),
    )


def not_found(kind: ResourceKind, name: str) -> StatusError:
    """Return the error for an object that does not exist."""
    return StatusError(404, "NotFound", f'{kind.key} "{name}" not found', _details(kind, name))


def method_not_allowed() -> StatusError:
    """Return the error for a verb that the resource does not support."""
    return StatusError(405, "MethodNotAllowed", "the server does not allow this method on the requested resource", {})


def not_acceptable(message: str) -> StatusError:
    """Return the error for an Accept header without a supported clause."""
    return StatusError(406, "NotAcceptable", message)


def already_exists(kind: ResourceKind, name: str) -> StatusError:
    """Return the error for creating an object that exists."""
    return StatusError(409, "AlreadyExists", f'{kind.key} "{name}" already exists', _details(kind, name))


def expired(message: str) -> StatusError:
    """Return the error for a revision that is compacted or has left the watch cache's window."""
    return StatusError(410, "Expired", message)


def too_old(revision: int, oldest: int) -> StatusError:
    """Return the error for a revision older than the watch cache's window; `oldest` is the oldest acceptable one."""
    return expired(f"too old resource version: {revision} ({oldest})")


WATCH_COMPACTED = "The resourceVersion for the provided watch is too old."
LIST_COMPACTED = "The resourceVersion for the provided list is too old."


def too_large(revision: int, current: int, retry_after: int | None) -> StatusError:
    """Return the error for a future revision."""
    details: dict[str, Any] = {
        "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]
    }
    if retry_after is not None:
        details["retryAfterSeconds"] = retry_after
    message = f"Timeout: Too large resource version: {revision}, current: {current}"
    return StatusError(504, "Timeout", message, details)


def _details(kind: ResourceKind, name: str | None) -> dict[str, Any]:
    return {
        **({"name": name} if name else {}),
        **({"group": kind.group} if kind.group else {}),
        "kind": kind.plural,
    }
