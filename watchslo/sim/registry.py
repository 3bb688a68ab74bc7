"""Builds the object to store from the body of a write request, as the registry of an apiserver does."""

from collections.abc import Mapping
from random import Random
from typing import Any
from uuid import UUID

from watchslo.sim.kinds import Object, timestamp

_FIXED = ("name", "namespace", "uid", "resourceVersion", "generation", "creationTimestamp")
"""The metadata that a client cannot change."""


def new_object(random: Random, namespace: str | None, body: Object, wall: float) -> Object:
    """Return the object that a POST creates; `random` supplies its UID."""
    metadata = {
        **body["metadata"],
        **({"namespace": namespace} if namespace else {}),
        "uid": str(UUID(int=random.getrandbits(128), version=4)),
        "resourceVersion": "",
        **({"generation": 1} if "spec" in body else {}),
        "creationTimestamp": timestamp(wall),
    }
    return {"metadata": metadata, **_content(body)}


def next_version(old: Object, body: Object) -> Object:
    """Return the object that a PATCH makes of an old one; it returns `old` itself if nothing changes."""
    kept = old["metadata"]
    new = {"metadata": {**body["metadata"], **{key: kept[key] for key in _FIXED if key in kept}}, **_content(body)}
    if new == old:
        return old
    if "generation" in kept and new.get("spec") != old.get("spec"):
        new["metadata"]["generation"] = kept["generation"] + 1
    return new


def merge(old: Any, patch: Any) -> Any:
    """Apply a JSON merge patch (RFC 7396)."""
    if not isinstance(patch, Mapping):
        return patch
    merged = dict(old) if isinstance(old, Mapping) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = merge(merged.get(key), value)
    return merged


def _content(body: Object) -> Object:
    """Return the body without metadata, kind and apiVersion; the storage implies kind and version."""
    return {key: value for key, value in body.items() if key not in ("kind", "apiVersion", "metadata")}
