"""Protobuf as apiservers send it, encoded by the simulator, and fields of any kind."""

import json
from typing import Any

from watchslo.sim import protobuf

POD: dict[str, Any] = {
    "metadata": {
        "name": "web",
        "generateName": "web-",
        "namespace": "default",
        "uid": "63a3b155-9975-4cd8-9256-1e84cb35c321",
        "resourceVersion": "475",
        "generation": 2,
        "creationTimestamp": "2026-11-21T11:58:25Z",
        "labels": {"app": "web"},
        "annotations": {"note": "x" * 200},
    },
    "spec": {"containers": [{"name": "web", "image": "registry.example/web:1", "args": ["a" * 300]}]},
}
STATUS: dict[str, Any] = {
    "metadata": {"continue": "abc"},
    "status": "Failure",
    "message": "too old",
    "reason": "Expired",
    "details": {"causes": [{"reason": "ResourceVersionTooLarge", "field": "x"}, {}], "retryAfterSeconds": 1},
    "code": 410,
}


def pod(revision: int | str, **metadata: Any) -> dict[str, Any]:
    return {**POD, "metadata": {**POD["metadata"], "resourceVersion": str(revision), **metadata}}


def event(kind: str, obj: dict[str, Any]) -> bytes:
    """Return the frame of an event with its length."""
    return protobuf.event(kind, protobuf.envelope("v1", "Pod", protobuf.encode_object(obj)))


def error(document: dict[str, Any]) -> bytes:
    """Return the frame of an ERROR event with its length."""
    return protobuf.event("ERROR", status(document))


def from_line(line: bytes) -> bytes:
    """Return the frame of the event that a line of JSON has."""
    decoded = json.loads(line)
    return error(decoded["object"]) if decoded["type"] == "ERROR" else event(decoded["type"], decoded["object"])


def status(document: dict[str, Any]) -> bytes:
    """Return the body of an HTTP error."""
    return protobuf.envelope("v1", "Status", protobuf.encode_status(document))


def pods(metadata: dict[str, Any], *objects: dict[str, Any]) -> bytes:
    """Return the body of a list."""
    return protobuf.envelope("v1", "PodList", protobuf.encode_list(metadata, objects))


def field(number: int, content: bytes) -> bytes:
    """Return a field of text, bytes or a message."""
    return protobuf._field(number, content)


def wrapped(kind: str, encoded: bytes) -> bytes:
    """Return the content of a frame with an object that is encoded already."""
    return protobuf.event(kind, protobuf.envelope("v1", "Pod", encoded))[4:]
