"""What a write makes of an object: the part of an apiserver between the request's body and its storage."""

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from typing import Any
from uuid import UUID

from watchslo.sim import status
from watchslo.sim.kinds import Kind, Object, timestamp

_SUFFIX_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
_METADATA_ORDER = ("name", "generateName", "namespace", "uid", "resourceVersion", "generation", "creationTimestamp")


@dataclass(frozen=True, slots=True)
class Registry:
    """Makes new objects and new versions of them; randomness comes from outside."""

    random: Random

    def create(self, kind: Kind, namespace: str | None, body: Object, wall: float) -> Object:
        """The object that a POST creates.

        Raises:
            StatusError: 400 for another namespace, 422 for a missing name.
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

    def replace(self, kind: Kind, old: Object, body: Object) -> Object:
        """The object that a PUT or a PATCH makes of an old one: the same dictionary when nothing changes.

        Raises:
            StatusError: 409 when the body is based on another version.
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
    """A JSON merge patch (RFC 7396)."""
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
    """All but what an object is called: its kind and version are known from where it is stored."""
    return {key: value for key, value in body.items() if key not in ("kind", "apiVersion", "metadata")}
