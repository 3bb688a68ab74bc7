"""What an apiserver says of a bearer token: who that is, and whether they may read a path.

TokenReview and SubjectAccessReview, as any server behind Kubernetes' own authorization asks for them. They need the
right to `create` both, which the ClusterRole `system:auth-delegator` gives.
"""

from collections.abc import Mapping
from dataclasses import replace
from enum import Enum

import msgspec

from watchslo.kube.client import Client
from watchslo.watch.failure import Failure, Reason, because

TOKEN_REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"  # noqa: S105 - a path
ACCESS_REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
NEEDED = (
    "This identity may not create tokenreviews and subjectaccessreviews, which server.authorization: kubernetes needs; "
    "bind the ClusterRole system:auth-delegator to it."
)


class Review(Enum):
    """How a review ended; a `Failure` is none."""

    ALLOWED = "allowed"
    UNKNOWN = "unknown"
    FORBIDDEN = "forbidden"


class _User(msgspec.Struct):
    username: str = ""
    uid: str = ""
    groups: list[str] | None = None
    extra: dict[str, list[str]] | None = None


class _TokenStatus(msgspec.Struct):
    authenticated: bool = False
    user: _User | None = None


class _TokenReview(msgspec.Struct):
    status: _TokenStatus


class _AccessStatus(msgspec.Struct):
    allowed: bool


class _AccessReview(msgspec.Struct):
    status: _AccessStatus


async def review(client: Client, token: str, path: str) -> Review | Failure:
    """Whether the bearer of a token may `get` a path that is no resource's."""
    user = await _authenticated(client, token)
    if user is None or isinstance(user, Failure):
        return user or Review.UNKNOWN
    return await _authorized(client, user, path)


async def _authenticated(client: Client, token: str) -> _User | Failure | None:
    """Who bears a token; None if nobody does.

    Where it is not authenticated, an error in the answer says only why: it is expired, or meant for somebody else.
    """
    asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}}
    answer = await _created(client, "token_review", TOKEN_REVIEWS, asked)
    if isinstance(answer, Failure):
        return answer
    try:
        status = msgspec.json.decode(answer, type=_TokenReview).status
    except msgspec.DecodeError:
        return because(Reason.GARBAGE)
    return status.user if status.authenticated else None


async def _authorized(client: Client, user: _User, path: str) -> Review | Failure:
    asked = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {
            "user": user.username,
            "uid": user.uid,
            "groups": user.groups or [],
            "extra": user.extra or {},
            "nonResourceAttributes": {"path": path, "verb": "get"},
        },
    }
    answer = await _created(client, "access_review", ACCESS_REVIEWS, asked)
    if isinstance(answer, Failure):
        return answer
    try:
        status = msgspec.json.decode(answer, type=_AccessReview).status
    except msgspec.DecodeError:
        return because(Reason.GARBAGE)
    return Review.ALLOWED if status.allowed else Review.FORBIDDEN


async def _created(client: Client, kind: str, path: str, asked: Mapping[str, object]) -> bytes | Failure:
    answer = await client.create(kind, path, msgspec.json.encode(asked))
    if isinstance(answer, Failure) and answer.reason is Reason.FORBIDDEN:
        return replace(answer, message=NEEDED)
    return answer
