"""A plain client that writes objects and records when: measured latencies are compared with these times.

It shares nothing with `watchslo.kube`, and works against a real and a simulated apiserver. A `Writer` holds one
connection and belongs to one thread.
"""

import contextlib
import http.client
import json
import select
import socket
import ssl
import time
from collections.abc import Iterator
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote, urlencode, urlsplit

from tests.support.process import PATIENCE_SECONDS

TIMEOUT_SECONDS = PATIENCE_SECONDS
MERGE_PATCH = "application/merge-patch+json"
AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


@dataclass(frozen=True, slots=True)
class Write:
    """One accepted write, committed between the monotonic seconds `before` and `after`.

    `revision` is that of the object after the write; None for a deletion, whose answer has no revision.
    """

    verb: str
    path: str
    before: float
    after: float
    revision: int | None


class StatusError(Exception):
    """The apiserver refused a request with `code`, and a Status if it sent one."""

    def __init__(self, code: int, status: Any, what: str) -> None:
        super().__init__(f"{what}: HTTP {code} {status}")
        self.code = code
        self.status = status


@contextlib.contextmanager
def given_up() -> Iterator[None]:
    """Continue after a request that the apiserver gave up, committed or not: at idle priority its 34 s are short."""
    try:
        yield
    except StatusError as error:
        if error.code != HTTPStatus.GATEWAY_TIMEOUT:
            raise


class Writer:
    """A client of one apiserver, with `token` if given; `agent` is the field manager of its writes."""

    def __init__(self, url: str, ca: Path | None = None, token: str | None = None, agent: str | None = None) -> None:
        parts = urlsplit(url)
        assert parts.hostname is not None, url
        if parts.scheme == "https":
            context = ssl.create_default_context(cafile=ca)
            self._connection: http.client.HTTPConnection = http.client.HTTPSConnection(
                parts.hostname, parts.port, timeout=TIMEOUT_SECONDS, context=context
            )
        else:
            self._connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=TIMEOUT_SECONDS)
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        if agent:
            self._headers["User-Agent"] = agent

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._connection.close()

    def create(self, collection: str, body: dict[str, Any]) -> Write:
        """POST an object to a collection's path."""
        return self._write("POST", collection, body, "application/json")

    def patch(self, path: str, change: dict[str, Any]) -> Write:
        """PATCH an object by JSON merge patch."""
        return self._write("PATCH", path, change, MERGE_PATCH)

    def replace(self, path: str, body: dict[str, Any]) -> Write:
        """PUT a whole object."""
        return self._write("PUT", path, body, "application/json")

    def delete(self, path: str) -> Write:
        """DELETE an object at once, without a grace period."""
        body = {"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0}
        return self._write("DELETE", path, body, "application/json")

    def get(self, path: str, **query: str) -> Any:
        """GET a JSON document: an object, a list, or another one."""
        _, _, answer = self._request("GET", path, query=query)
        return json.loads(answer)

    def served(self) -> set[str]:
        """Return the groups in aggregated discovery, the last place where custom resources appear."""
        _, _, answer = self._request("GET", "/apis", accept=AGGREGATED)
        return {group["metadata"]["name"] for group in json.loads(answer)["items"]}

    def text(self, path: str) -> str:
        """GET a text, such as `/metrics` or `/readyz`."""
        _, _, answer = self._request("GET", path)
        return answer.decode()

    def revision(self, collection: str) -> int:
        """Return the newest revision, from a consistent list that selects no object."""
        found = self.get(collection, fieldSelector="metadata.name=absent--")
        return int(found["metadata"]["resourceVersion"])

    def service_account_token(self, namespace: str, name: str, *audiences: str) -> str:
        """Return a new token of a service account, from a TokenRequest: for the apiserver, or for other audiences."""
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
        requested = json.dumps({"spec": {"audiences": audiences}} if audiences else {}).encode()
        _, _, answer = self._request("POST", path, requested, "application/json")
        return str(json.loads(answer)["status"]["token"])

    def permits(self, user: str, **attributes: str) -> bool:
        """Return True if a user has a permission now, by SubjectAccessReview.

        `verb`, `group`, `resource`, `namespace` and `name` name the permission, or `verb` and `path`.
        """
        kind = "nonResourceAttributes" if "path" in attributes else "resourceAttributes"
        review = json.dumps({"spec": {"user": user, kind: attributes}}).encode()
        _, _, answer = self._request(
            "POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", review, "application/json"
        )
        return bool(json.loads(answer)["status"]["allowed"])

    def _write(self, verb: str, path: str, body: dict[str, Any], form: str) -> Write:
        before, after, answer = self._request(verb, path, json.dumps(body).encode(), form)
        metadata = json.loads(answer).get("metadata", {})
        revision = None if verb == "DELETE" else int(metadata["resourceVersion"])
        return Write(verb, path, before, after, revision)

    def _request(
        self,
        verb: str,
        path: str,
        body: bytes | None = None,
        form: str = "",
        query: dict[str, str] | None = None,
        accept: str = "*/*",
    ) -> tuple[float, float, bytes]:
        target = quote(path) + (f"?{urlencode(query)}" if query else "")
        headers = self._headers | {"Accept": accept} | ({"Content-Type": form} if form else {})
        self._connect()
        before = time.monotonic()
        try:
            self._connection.request(verb, target, body, headers)
            response = self._connection.getresponse()
            answer = response.read()
        except (OSError, http.client.HTTPException):
            self._connection.close()  # the next request opens it again; this one may have succeeded
            raise
        after = time.monotonic()
        if response.status >= 400:
            raise StatusError(response.status, _status(answer), f"{verb} {path}")
        return before, after, answer

    def _connect(self) -> None:
        """Open the connection if there is none, or if the apiserver has closed it while it was idle."""
        if self._connection.sock is not None and _has_ended(self._connection.sock):
            self._connection.close()
        if self._connection.sock is None:
            self._connection.connect()


def _has_ended(idle: socket.socket) -> bool:
    """Return True if there is something to read on a connection without a request: only its end can be."""
    poll = select.poll()
    poll.register(idle, select.POLLIN)
    return bool(poll.poll(0))


def _status(answer: bytes) -> Any:
    with contextlib.suppress(ValueError):
        return json.loads(answer)
    return answer[:200]


def configmap(name: str, size: int = 32, **labels: str) -> dict[str, Any]:
    """Return a config map with `size` bytes of data."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "labels": labels},
        "data": {"filling": "x" * size},
    }


def pod(name: str, **labels: str) -> dict[str, Any]:
    """Return a pod that no node runs."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": labels},
        "spec": {"containers": [{"name": "main", "image": "example.invalid/none:1"}]},
    }


DEAD_WEBHOOK = {
    "strategy": "Webhook",
    "webhook": {"conversionReviewVersions": ["v1"], "clientConfig": {"url": "https://127.0.0.1:1/convert"}},
}
"""The conversion of a custom resource whose webhook refuses connections."""


def crd(plural: str, kind: str, group: str = "tests.watchslo.invalid") -> dict[str, Any]:
    """Return the CRD of a namespaced resource, version v1, whose objects may hold any fields."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": plural, "singular": kind.lower(), "kind": kind, "listKind": f"{kind}List"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {"group": group, "scope": "Namespaced", "names": names, "versions": [version]},
    }
