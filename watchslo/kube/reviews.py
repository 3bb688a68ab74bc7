"""Ask an apiserver what a user may do: the user of a bearer token, or this identity itself.

`review` sends a TokenReview and a SubjectAccessReview, as every server does that delegates authorization to Kubernetes.
It needs the permission to `create` both, which the ClusterRole `system:auth-delegator` grants. `may` sends a
SelfSubjectAccessReview, which every user may create. None of them is stored.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum

import msgspec

from watchslo.kube.client import Client
from watchslo.kube.decoding import decode_exactly
from watchslo.watch.failure import Failure, Reason

TOKEN_REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"  # noqa: S105 - a path
ACCESS_REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
SELF_REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
NEEDED = (
    "This identity may not create tokenreviews and subjectaccessreviews, which server.authorization: kubernetes needs; "
    "bind the ClusterRole system:auth-delegator to it."
)


class Review(Enum):
    """The result of a review. A review without a result is a `Failure`."""

    ALLOWED = "allowed"
    UNKNOWN = "unknown"
    FORBIDDEN = "forbidden"


@dataclass(frozen=True, slots=True)
class ReviewedAccess:
    """A verb on resources of a group, in one namespace or in all, of one name or of all; or on a `path`."""

    verb: str
    group: str = ""
    resource: str = ""
    namespace: str | None = None
    name: str | None = None
    path: str | None = None

    @property
    def attributes(self) -> dict[str, dict[str, str]]:
        """What a review asks for."""
        if self.path is not None:
            return {"nonResourceAttributes": {"path": self.path, "verb": self.verb}}
        attributes = {
            "verb": self.verb,
            "group": self.group,
            "resource": self.resource,
            "namespace": self.namespace or "",
            "name": self.name or "",
        }
        return {"resourceAttributes": attributes}


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
    """Return whether the bearer of a token may `get` a non-resource path."""
    user = await _authenticated(client, token)
    if user is None or isinstance(user, Failure):
        return user or Review.UNKNOWN
    return await _authorized(client, user, path)


async def may(client: Client, access: ReviewedAccess) -> bool | Failure:
    """Return whether the identity of the client has an access."""
    review_request = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": access.attributes,
    }
    answer = await client.create("access_review", SELF_REVIEWS, msgspec.json.encode(review_request))
    decision = answer if isinstance(answer, Failure) else _decision(answer)
    return decision if isinstance(decision, Failure) else decision.allowed


async def _authenticated(client: Client, token: str) -> _User | Failure | None:
    """Return the user of a token, or None if the token is not valid.

    The error in an answer without authentication only gives the reason, such as an expired token or another audience.
    """
    review_request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}}
    answer = await _create_review(client, "token_review", TOKEN_REVIEWS, review_request)
    if isinstance(answer, Failure):
        return answer
    reviewed = decode_exactly(answer, _TokenReview)
    if isinstance(reviewed, Failure):
        return reviewed
    return reviewed.status.user if reviewed.status.authenticated else None


async def _authorized(client: Client, user: _User, path: str) -> Review | Failure:
    review_request = {
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
    answer = await _create_review(client, "access_review", ACCESS_REVIEWS, review_request)
    decision = answer if isinstance(answer, Failure) else _decision(answer)
    if isinstance(decision, Failure):
        return decision
    return Review.ALLOWED if decision.allowed else Review.FORBIDDEN


def _decision(answer: bytes) -> _AccessStatus | Failure:
    reviewed = decode_exactly(answer, _AccessReview)
    return reviewed if isinstance(reviewed, Failure) else reviewed.status


async def _create_review(client: Client, kind: str, path: str, review_request: Mapping[str, object]) -> bytes | Failure:
    answer = await client.create(kind, path, msgspec.json.encode(review_request))
    if isinstance(answer, Failure) and answer.reason is Reason.FORBIDDEN:
        return replace(answer, message=NEEDED)
    return answer
