"""`python -m benchmarks.decoding` prints the CPU that decoding an event of a pod takes, in each representation."""

import json
import time
import timeit
from collections.abc import Callable
from typing import Any

from watchslo.sim import protobuf
from watchslo.watch.decode import FrameReader, decode
from watchslo.watch.protobuf import ProtobufFrameReader

CALLS, REPEATS = 20_000, 9
CONTAINER = {
    "name": "web",
    "image": "registry.example/team/web:1.2.3",
    "terminationMessagePath": "/dev/termination-log",
}
FIELDS: dict[str, Any] = {"f:metadata": {"f:labels": {f"f:label-{number}": {} for number in range(12)}}}
POD: dict[str, Any] = {
    "kind": "Pod",
    "apiVersion": "v1",
    "metadata": {
        "name": "web-7d4b9c5f6-x2k41",
        "generateName": "web-7d4b9c5f6-",
        "namespace": "default",
        "uid": "63a3b155-9975-4cd8-9256-1e84cb35c321",
        "resourceVersion": "123456789",
        "generation": 1,
        "creationTimestamp": "2026-11-21T11:58:25Z",
        "labels": {f"label-{number}": "some-value" for number in range(6)},
        "annotations": {f"example.com/annotation-{number}": "value " * 10 for number in range(4)},
        "managedFields": [{"manager": "kubelet", "operation": "Update", "fieldsV1": FIELDS} for _ in range(2)],
    },
    "spec": {"containers": [CONTAINER | {"env": [{"name": f"KEY_{n}", "value": "value " * 8} for n in range(32)]}]},
    "status": {"conditions": [{"type": f"Condition{n}", "status": "True", "reason": "Some"} for n in range(12)]},
}
TABLE = {
    "kind": "Table",
    "apiVersion": "meta.k8s.io/v1",
    "metadata": {"resourceVersion": "123456789"},
    "columnDefinitions": None,
    "rows": [{"cells": ["web-7d4b9c5f6-x2k41", "1/1", "Running", "0", "25s", "10.0.0.1", "node-1"], "object": None}],
}
METADATA = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": POD["metadata"]}


def decoding() -> None:
    """Print the costs."""
    print("\nDecoding an event of a pod, by representation")
    frame = protobuf.event("MODIFIED", protobuf.envelope("v1", "Pod", protobuf.encode_object(POD)))
    json_reader, reader = FrameReader(), ProtobufFrameReader()
    for name, obj in (("Table", TABLE), ("metadata", METADATA), ("plain", POD)):
        line = json.dumps({"type": "MODIFIED", "object": obj}, separators=(",", ":")).encode() + b"\n"
        assert decode(line).garbage == 0
        print(f"{name}, {len(line)} bytes: {_cost(json_reader.feed, line):.2f} µs")
    print(f"protobuf, {len(frame)} bytes: {_cost(reader.feed, frame):.2f} µs")


def _cost(decode_one: Callable[[bytes], object], data: bytes) -> float:
    """Return the CPU of one call, in microseconds: the least of several runs."""
    runs = timeit.repeat(lambda: decode_one(data), number=CALLS, repeat=REPEATS, timer=time.process_time)
    return min(runs) / CALLS * 1e6


if __name__ == "__main__":
    decoding()
