"""Builds the object to store from the body of a write request, as the registry of an apiserver does."""

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from typing import Any
from uuid import UUID

from watchslo.sim import status
from watchslo.sim.kinds import Object, ResourceKind, timestamp

_SUFFIX_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
_METADATA_ORDER = ("name", "generateName", "namespace", "uid", "resourceVersion", "generation", "creationTimestamp")


@dataclass(frozen=True, slots=True)
class Registry:
    """Makes new objects and new versions of objects; `random` supplies names and UIDs."""

    random: Random

    def create(self, kind: ResourceKind, namespace: str | None, body: Object, wall: float) -> Object:
        """Return the object that a POST creates.

        Raises:
            StatusError: 400 for a different namespace in the body, 422 for a missing name.
        """
        metadata = body.get("metadata") or {}
        prefix = metadata.get("generateName", "")
        name = metadata.get("name") or (prefix and prefix + "".join(self.random.choices(_SUFFIX_LETTERS, k=5)))
        if not name:
            cause = ("FieldValueRequired", "Required value: name or generateName is required", "metadata.name")
            raise status.invalid(kind.kind, [cause])
        if namespace and metadata.get("namespace", namespace) != namespace:
            raise status.bad_request(
                "the namespace of the provided object does not match the namespace sent on the request"
            )
        made = {
            **metadata,
            "name": name,
            **({"namespace": namespace} if namespace else {}),
            "uid": str(UUID(int=self.random.getrandbits(128), version=4)),
            "resourceVersion": "",
            **({"generation": 1} if "spec" in body else {}),
            "creationTimestamp": timestamp(wall),
        }
        ordered = {key: made[key] for key in _METADATA_ORDER if key in made}
        return {"metadata": {**ordered, **made}, **_content(body)}

    def replace(self, kind: ResourceKind, old: Object, body: Object) -> Object:
        """Return the object that a PUT or a PATCH makes of an old one; it returns `old` itself if nothing changes.

        Raises:
            StatusError: 409 if the body carries the resourceVersion of another version.
        """
        metadata = body.get("metadata") or {}
        kept = old["metadata"]
        if metadata.get("resourceVersion", kept["resourceVersion"]) != kept["resourceVersion"]:
            raise status.conflict(kind, kept["name"])
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
