"""An entry of the section `watch`: what is watched, how, and in which parts."""

import re
from collections import Counter
from collections.abc import Mapping
from typing import ClassVar, Literal, Self

from pydantic import Field, model_validator

from watchslo.config.parts import divide_by_field, divide_by_hash, divide_by_label
from watchslo.config.sections.objective import ObjectiveConfig
from watchslo.config.sections.section import ConfigSection
from watchslo.config.values import Namespace, SelectorKey, SelectorValue, ShardSelector, Text, WatchableName
from watchslo.model import Resource
from watchslo.watch.strategy import PAGE_SIZE

_MOST_PARTS = 1_000  # of one watch: each is a connection
_MOST_VALUES = 100  # the selector of the rest names them all, and proxies limit the length of a URL
_DIVISIONS = {  # the other keys of each division
    "namespace": "values: [ci, web]",
    "label": "key: team, values: [ci, web]",
    "field": "key: spec.nodeName, values: [node-1, node-2]",
    "shardSelector": "parts: 4",
}
_FIXED_FIELDS = re.compile(r"(metadata\.(name|namespace)!?==?[^,]*(,|$))+")  # an object never changes these
_LARGEST_PAGE = 10_000  # objects; larger pages only cost the apiserver memory
_CREATED_OFTEN = frozenset({"pods", "deployments.apps", "replicasets.apps"})


class DivideConfig(ConfigSection):
    """How a watch is divided into parts, which are watches of their own; each object belongs to exactly one part.

    There is one part for each of the `values`, and one for all other objects. `by: shardSelector` needs the number of
    `parts`, and apiservers with the feature gate ShardedListAndWatch (KEP-5866, alpha in 1.36).
    """

    by: Literal["namespace", "label", "field", "shardSelector"]
    key: SelectorKey | None = None
    values: tuple[SelectorValue, ...] = Field(default=(), max_length=_MOST_VALUES)
    parts: int | None = Field(default=None, ge=2, le=_MOST_PARTS)

    @model_validator(mode="after")
    def _check_keys(self) -> Self:
        example = _DIVISIONS[self.by]
        if any((getattr(self, key) in (None, ())) is (f"{key}: " in example) for key in ("key", "values", "parts")):
            raise ValueError(f"`by: {self.by}` needs other keys; write for example {{by: {self.by}, {example}}}")
        for value, count in Counter(self.values).items():
            if count > 1:  # its objects would belong to two parts
                raise ValueError(f"{value} is listed {count} times in `values`; keep one of them")
        return self

    @property
    def selectors(self) -> tuple[str, Mapping[str, str]]:
        """Which selector of the watch limits it to a part, and the selectors by the names of the parts."""
        match self.by:
            case "shardSelector":
                return "shard_selector", divide_by_hash(self.parts or 1)
            case "label":
                return "label_selector", divide_by_label(self.key or "", self.values)
            case _:
                return "field_selector", divide_by_field(self.key or "metadata.namespace", self.values)


class WatchConfig(ConfigSection):
    """One watch, or with the resource `"*"` one watch of each resource that may be listed and watched.

    `page_size` is in objects. `inventory` keeps the revision of each object, to count what a gap hid. `hops` measures
    hops also while the watch is not late. `reference` opens a second watch, of whole objects, to see how much later
    these arrive. A resource alone, as in `watch: [pods]`, is short for its mapping.
    """

    short_for: ClassVar = "resource"

    resource: WatchableName
    name: Text | None = None
    namespace: Namespace | None = None
    field_selector: Text | None = None
    label_selector: Text | None = None
    shard_selector: ShardSelector | None = None
    divide: DivideConfig | None = None
    strategy: Literal["tail", "paged", "parallel", "stream", "cache"] = Field(default="tail", alias="list")
    page_size: int = Field(default=PAGE_SIZE, ge=1, le=_LARGEST_PAGE)
    inventory: bool = False
    representation: Literal["auto", "metadata", "table", "plain", "protobuf"] = "auto"
    creation: bool | None = None
    hops: bool = False
    reference: bool = False
    objective: ObjectiveConfig = ObjectiveConfig()

    @model_validator(mode="after")
    def _check_options(self) -> Self:
        if self.resource == "*" and self.name:
            raise ValueError('`name` would be given to many watches; remove it, or name one resource instead of "*"')
        self._check_division()
        self._check_list_options()
        self._check_metadata_options()
        self._check_reference()
        return self

    def _check_division(self) -> None:
        if self.divide is None:
            return
        if self.resource == "*":
            raise ValueError('`divide` is for one resource; name it instead of "*", or remove `divide`')
        if self.divide.by == "namespace" and self.namespace:
            raise ValueError("`divide` by namespace needs all namespaces; remove `namespace`, or divide by label")
        if self.divide.by == "shardSelector" and self.shard_selector:
            raise ValueError("`shardSelector` is what `divide` would set; remove one or the other")

    def _check_list_options(self) -> None:
        if self.strategy != "tail":
            return
        if self.inventory:
            raise ValueError(
                "`inventory` needs a list of the objects, which `list: tail` never requests; write list: paged"
            )
        if "page_size" in self.model_fields_set:
            raise ValueError("`pageSize` needs a list in pages, which `list: tail` never requests; write list: paged")

    def _check_metadata_options(self) -> None:
        if self.creation and any(part.may_gain_objects for part in self.parts):
            raise ValueError(
                "`creation` needs a watch without selectors, where ADDED means created; remove one or the other"
            )
        if self.creation and self.representation == "table":
            raise ValueError("`creation` needs metadata: a Table has no timestamps; write representation: metadata")
        if self.inventory and self.representation == "table":
            raise ValueError(
                "`inventory` needs metadata: a Table does not identify objects; write representation: metadata"
            )

    def _check_reference(self) -> None:
        if self.reference and self.resource == "*":
            raise ValueError(
                '`reference` would open a second watch of every resource; name one resource instead of "*"'
            )
        if self.reference and self.representation in ("plain", "protobuf"):
            raise ValueError(
                "`reference` compares whole objects with a small representation; remove `representation` or `reference`"
            )

    @property
    def label(self) -> str:
        """The value of the label `watch` in the metrics."""
        return self.name or self.resource

    @property
    def parts(self) -> tuple["WatchConfig", ...]:
        """The watches that together receive what this one would; itself if it is not divided."""
        if self.divide is None:
            return (self,)
        kind, selectors = self.divide.selectors
        own = getattr(self, kind)
        return tuple(
            self.model_copy(
                update={
                    "name": f"{self.label}/{name}",
                    kind: f"{own},{selector}" if own else selector,
                    "divide": None,
                }
            )
            for name, selector in selectors.items()
        )

    @property
    def may_gain_objects(self) -> bool:
        """Whether an existing object can begin to match the selectors: then ADDED does not mean created."""
        return bool(self.label_selector or (self.field_selector and not _FIXED_FIELDS.fullmatch(self.field_selector)))

    def measures_creation(self, resource: Resource) -> bool:
        """Return True if creation timestamps are requested; `resource` is the one that discovery found."""
        if self.creation is not None:
            return self.creation
        return self.representation != "table" and not self.may_gain_objects and resource.key in _CREATED_OFTEN

    def representation_of(self, resource: Resource) -> Literal["metadata", "table", "plain", "protobuf"]:
        """Return the representation to request: a Table is cheapest; metadata identifies and dates objects."""
        if self.representation == "auto":
            return "metadata" if self.inventory or self.measures_creation(resource) else "table"
        return self.representation
