"""Builds the object to store from the body of a write request, as the registry of an apiserver does."""

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from typing import Any
from uuid import UUID

from watchslo.sim.kinds import Object, timestamp

_METADATA_ORDER = ("name", "namespace", "uid", "resourceVersion", "generation", "creationTimestamp")


@dataclass(frozen=True, slots=True)
class Registry:
    """Makes new objects and new versions of objects; `random` supplies UIDs."""

    random: Random

    def create(self, namespace: str | None, body: Object, wall: float) -> Object:
        """Return the object that a POST creates."""
        metadata = body["metadata"]
        made = {
            **metadata,
            **({"namespace": namespace} if namespace else {}),
            "uid": str(UUID(int=self.random.getrandbits(128), version=4)),
            "resourceVersion": "",
            **({"generation": 1} if "spec" in body else {}),
            "creationTimestamp": timestamp(wall),
        }
        ordered = {key: made[key] for key in _METADATA_ORDER if key in made}
        return {"metadata": {**ordered, **made}, **_content(body)}

    def replace(self, old: Object, body: Object) -> Object:
        """Return the object that a PATCH makes of an old one; it returns `old` itself if nothing changes."""
        metadata = body["metadata"]
        kept = old["metadata"]
        fixed = {key: kept[key] for key in _METADATA_ORDER if key in kept}
        new = {"metadata": {**fixed, **metadata, **fixed}, **_content(body)}
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
