"""The requests of reviews, and the meaning of their answers."""

from typing import Any

import msgspec
import pytest

from tests.unit.kube.conftest import Known, Server, answer, connection_to
from watchslo.kube.client import Client
from watchslo.kube.limiter import Limiter
from watchslo.kube.reviews import NEEDED, Review, ReviewedAccess, may, review
from watchslo.watch.failure import Failure, Reason

USER = {"username": "prometheus", "uid": "u-1", "groups": ["g"], "extra": {"k": ["v"]}}
AUTHENTICATED = {"status": {"authenticated": True, "user": USER}}
CREATED = "201 Created"


def review_answer(document: Any, status: str = CREATED) -> bytes:
    return answer(msgspec.json.encode(document), status)


async def reviewed(server: Server, client: Client, *script: bytes) -> Review | Failure:
    server.script = [*script]
    return await review(client, "secret", "/metrics")


async def failed(server: Server, client: Client, *script: bytes) -> Failure:
    failure = await reviewed(server, client, *script)
    assert isinstance(failure, Failure)
    return failure


@pytest.mark.parametrize(("allowed", "verdict"), [(True, Review.ALLOWED), (False, Review.FORBIDDEN)])
async def test_review_of_a_known_user(server: Server, client: Client, *, allowed: bool, verdict: Review) -> None:
    answers = review_answer(AUTHENTICATED), review_answer({"status": {"allowed": allowed, "reason": "RBAC"}})
    assert await reviewed(server, client, *answers) is verdict
    assert client.requests == {("token_review", "201"): 1, ("access_review", "201"): 1}


async def test_review_requests_have_user_and_path(server: Server, client: Client) -> None:
    await reviewed(server, client, review_answer(AUTHENTICATED), review_answer({"status": {"allowed": True}}))
    heads = [request.splitlines() for request in server.requests]
    assert heads[0][0] == "POST /apis/authentication.k8s.io/v1/tokenreviews HTTP/1.1"
    assert heads[1][0] == "POST /apis/authorization.k8s.io/v1/subjectaccessreviews HTTP/1.1"
    assert all("Content-Type: application/json" in head for head in heads)
    token, access = (msgspec.json.decode(body) for body in server.bodies)
    assert token == {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenReview",
        "spec": {"token": "secret"},
    }
    assert access == {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {
            "user": "prometheus",
            "uid": "u-1",
            "groups": ["g"],
            "extra": {"k": ["v"]},
            "nonResourceAttributes": {"path": "/metrics", "verb": "get"},
        },
    }


@pytest.mark.parametrize(
    "status",
    [
        {},
        {"authenticated": False},
        {"error": "[invalid bearer token, service account token has expired]"},
        {"authenticated": False, "user": {}, "error": "token audiences are invalid"},
    ],
)
async def test_unknown_user_is_not_allowed(server: Server, client: Client, status: Any) -> None:
    assert await reviewed(server, client, review_answer({"status": status})) is Review.UNKNOWN
    assert len(server.requests) == 1


async def test_user_without_uid_groups_and_extra(server: Server, client: Client) -> None:
    user = {"status": {"authenticated": True, "user": {"username": "a"}}}
    allowed = {"status": {"allowed": True}}
    assert await reviewed(server, client, review_answer(user), review_answer(allowed)) is Review.ALLOWED


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        ("429 Too Many Requests", Reason.THROTTLED),
        ("500 Internal Server Error", Reason.SERVER_ERROR),
        ("503 Service Unavailable", Reason.SERVER_ERROR),
        ("401 Unauthorized", Reason.UNAUTHORIZED),
    ],
)
async def test_failed_review_is_a_failure(server: Server, client: Client, status: str, reason: Reason) -> None:
    assert (await failed(server, client, review_answer({}, status))).reason is reason
    assert (await failed(server, client, review_answer(AUTHENTICATED), review_answer({}, status))).reason is reason


async def test_user_with_an_odd_group_is_not_reviewed_without_it(server: Server, client: Client) -> None:
    """The group may be one that is denied access."""
    status = {"authenticated": True, "user": USER | {"groups": ["g", 7]}}
    assert (await failed(server, client, review_answer({"status": status}))).reason is Reason.GARBAGE
    assert client.requests.total() == 1


async def test_missing_permission_is_named(server: Server, client: Client) -> None:
    failure = await failed(server, client, review_answer({}, "403 Forbidden"))
    assert (failure.reason, failure.message) == (Reason.FORBIDDEN, NEEDED)


@pytest.mark.parametrize("body", [b"", b"{}", b'{"status":{"authenticated":"yes"}}', b'{"status":7}'])
async def test_invalid_answer_is_garbage(server: Server, client: Client, body: bytes) -> None:
    assert (await failed(server, client, answer(body, CREATED))).reason is Reason.GARBAGE
    assert (await failed(server, client, review_answer(AUTHENTICATED), answer(body, CREATED))).reason is Reason.GARBAGE


async def test_unreachable_apiserver_is_a_failure(server: Server, known: Known) -> None:
    await server.stop()
    async with Client(connection_to(server.url, known), Limiter(100), known.observe) as client:
        failure = await review(client, "secret", "/metrics")
        assert isinstance(failure, Failure)
        assert failure.reason is Reason.REFUSED
        assert client.requests == {("token_review", "refused"): 1}


ONE_NAME = ReviewedAccess("list", "apps", "deployments", "default", "x")


def attributes(verb: str, group: str, resource: str, namespace: str, name: str) -> dict[str, str]:
    return {"verb": verb, "group": group, "resource": resource, "namespace": namespace, "name": name}


@pytest.mark.parametrize("allowed", [True, False])
@pytest.mark.parametrize(
    ("access", "spec"),
    [
        (ONE_NAME, {"resourceAttributes": attributes("list", "apps", "deployments", "default", "x")}),
        (ReviewedAccess("watch", "", "pods"), {"resourceAttributes": attributes("watch", "", "pods", "", "")}),
        (ReviewedAccess("get", path="/metrics"), {"nonResourceAttributes": {"path": "/metrics", "verb": "get"}}),
    ],
    ids=["one name", "all names", "path"],
)
async def test_may_asks_for_this_identity(
    server: Server, client: Client, access: ReviewedAccess, spec: Any, *, allowed: bool
) -> None:
    server.script = [review_answer({"status": {"allowed": allowed, "denied": True}})]
    assert await may(client, access) is allowed
    assert server.requests[0].startswith("POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews ")
    assert msgspec.json.decode(server.bodies[0]) == {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": spec,
    }


@pytest.mark.parametrize(
    ("document", "reason"),
    [(answer(b"{}", "403 Forbidden"), Reason.FORBIDDEN), (review_answer({"status": {}}), Reason.GARBAGE)],
)
async def test_may_returns_failures(server: Server, client: Client, document: bytes, reason: Reason) -> None:
    server.script = [document]
    failure = await may(client, ONE_NAME)
    assert isinstance(failure, Failure)
    assert failure.reason is reason
