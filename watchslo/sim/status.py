"""What an apiserver says when it refuses: one function for each kind of refusal, worded as kube-apiserver words it."""

from collections.abc import Mapping
from typing import Any

from watchslo.sim.kinds import Kind


class StatusError(Exception):
    """A refusal: an HTTP status code and the `Status` object that explains it."""

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        details: Mapping[str, Any] | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details
        self.metadata = metadata or {}

    def __str__(self) -> str:
        return f"{self.code} {self.reason}: {self.message}"

    @property
    def retry_after(self) -> int | None:
        """Whole seconds, as in the header Retry-After."""
        return self.details.get("retryAfterSeconds") if self.details else None

    def document(self) -> dict[str, Any]:
        return {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": self.metadata,
            "status": "Failure",
            "message": self.message,
            **({"reason": self.reason} if self.reason else {}),
            **({"details": self.details} if self.details is not None else {}),
            "code": self.code,
        }


def bad_request(message: str) -> StatusError:
    """A request that cannot be understood."""
    return StatusError(400, "BadRequest", message)


def unauthorized() -> StatusError:
    """No token, or the wrong one."""
    return StatusError(401, "Unauthorized", "Unauthorized")


def forbidden(kind: Kind, verb: str, namespace: str | None, name: str | None = None) -> StatusError:
    """A verb that this identity may not use on the resource."""
    scope = f'in the namespace "{namespace}"' if namespace else "at the cluster scope"
    what = f'{kind.key} "{name}"' if name else kind.key
    return StatusError(
        403,
        "Forbidden",
        f'{what} is forbidden: User "watchslo" cannot {verb} resource "{kind.plural}" '
        f'in API group "{kind.group}" {scope}',
        _details(kind, name),
    )


def not_found(kind: Kind, name: str) -> StatusError:
    """An object that does not exist."""
    return StatusError(404, "NotFound", f'{kind.key} "{name}" not found', _details(kind, name))


def unknown_resource() -> StatusError:
    """A resource that the server does not have, in a group that it has."""
    return StatusError(404, "NotFound", "the server could not find the requested resource", {})


def method_not_allowed() -> StatusError:
    """A verb that the resource does not have."""
    return StatusError(405, "MethodNotAllowed", "the server does not allow this method on the requested resource", {})


def not_watchable(kind: Kind) -> StatusError:
    """A resource that can be listed but not watched."""
    message = f'watch is not supported on resources of kind "{kind.key}"'
    return StatusError(405, "MethodNotAllowed", message, _details(kind, None))


def not_acceptable(message: str) -> StatusError:
    """A representation that cannot be had."""
    return StatusError(406, "NotAcceptable", message)


def already_exists(kind: Kind, name: str) -> StatusError:
    """An object with that name is there."""
    return StatusError(409, "AlreadyExists", f'{kind.key} "{name}" already exists', _details(kind, name))


def conflict(kind: Kind, name: str) -> StatusError:
    """A new version of an object, made from an old one."""
    message = (
        f'Operation cannot be fulfilled on {kind.key} "{name}": the object has been modified; '
        "please apply your changes to the latest version and try again"
    )
    return StatusError(409, "Conflict", message, _details(kind, name))


def expired(message: str) -> StatusError:
    """A revision that is gone: compacted, or fallen out of the watch cache's window."""
    return StatusError(410, "Expired", message)


def too_old(revision: int, oldest: int) -> StatusError:
    """A revision that has left the watch cache's window; `oldest` is the oldest acceptable one."""
    return expired(f"too old resource version: {revision} ({oldest})")


WATCH_COMPACTED = "The resourceVersion for the provided watch is too old."
LIST_COMPACTED = "The resourceVersion for the provided list is too old."
CONTINUE_COMPACTED = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list without "
    "the continue parameter, or use the continue token in this response to retrieve the remainder of the results. "
    "Continuing with the provided token results in an inconsistent list - objects that were created, modified, or "
    "deleted between the time the first chunk was returned and now may show up in the list."
)


def continue_expired(inconsistent: str) -> StatusError:
    """A continue token whose revision is compacted; with the token that goes on at the newest revision."""
    return StatusError(410, "Expired", CONTINUE_COMPACTED, metadata={"continue": inconsistent})


def unsupported_media_type() -> StatusError:
    """A body that is not in a format known here."""
    message = (
        "the body of the request was in an unknown format - accepted media types include: "
        "application/json, application/merge-patch+json, application/strategic-merge-patch+json"
    )
    return StatusError(415, "UnsupportedMediaType", message)


def invalid(kind: str, causes: list[tuple[str, str, str]], group: str = "", name: str = "") -> StatusError:
    """A request that makes no sense; `causes` are (reason, message, field)."""
    problems = [f"{field}: {message}" for _, message, field in causes]
    listed = problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]"
    details = {
        **({"group": group} if group else {}),
        "kind": kind,
        "causes": [{"reason": reason, "message": message, "field": field} for reason, message, field in causes],
    }
    return StatusError(422, "Invalid", f'{kind}{"." + group if group else ""} "{name}" is invalid: {listed}', details)


def too_many_requests(message: str, retry_after: int) -> StatusError:
    """Try again, in so many seconds."""
    return StatusError(429, "TooManyRequests", message, {"retryAfterSeconds": retry_after})


def initializing() -> StatusError:
    """The watch cache that this request needs is not there yet."""
    return too_many_requests("storage is (re)initializing", 1)


def internal(message: str) -> StatusError:
    """Something that went wrong inside."""
    return StatusError(500, "", message)


def too_large(revision: int, current: int, retry_after: int | None) -> StatusError:
    """A revision from the future."""
    details: dict[str, Any] = {
        "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]
    }
    if retry_after is not None:
        details["retryAfterSeconds"] = retry_after
    message = f"Timeout: Too large resource version: {revision}, current: {current}"
    return StatusError(504, "Timeout", message, details)


def _details(kind: Kind, name: str | None) -> dict[str, Any]:
    return {
        **({"name": name} if name else {}),
        **({"group": kind.group} if kind.group else {}),
        "kind": kind.plural,
    }
