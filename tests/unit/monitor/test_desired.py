"""Which watches should run, and which of them a reload keeps."""

from watchslo.config.model import Config
from watchslo.config.sections.watch import WatchConfig
from watchslo.kube.discovery import Catalogue, GroupVersion, Offer
from watchslo.model import Resource
from watchslo.monitor.protocol.desired import DesiredWatches, desired_watches

PODS = Resource("", "v1", "pods", namespaced=True)
HALF = "shardRange(object.metadata.uid, '0x0000000000000000', '0x8000000000000000')"
VERBS = frozenset({"list", "watch"})
CATALOGUE = Catalogue([GroupVersion("", "v1", (Offer(PODS, VERBS),))])
MANY = [Resource("", "v1", f"things{number}", namespaced=True) for number in range(30)]
CROWDED = Catalogue([GroupVersion("", "v1", tuple(Offer(resource, VERBS) for resource in MANY))])


def question(**keys: object) -> object:
    """Return the request of a configuration entry that stands for one watch."""
    config = Config(watch=(WatchConfig.model_validate(keys),))
    (wanted,) = desired_watches(config, CATALOGUE, 1).watches.values()
    return wanted.request


def test_same_request_ignores_names_and_hops() -> None:
    for same in ({"resource": "*"}, {"resource": "pods.v1"}, {"name": "mine"}, {"hops": True}):
        assert question(resource="pods") == question(**{"resource": "pods", **same})


def test_same_request_depends_on_what_is_asked() -> None:
    asked = question(resource="pods")
    for other in (
        {"namespace": "default"},
        {"labelSelector": "a=b"},
        {"shardSelector": HALF},
        {"list": "paged"},
        {"creation": False},
        {"reference": True},
    ):
        assert asked != question(resource="pods", **other)


def test_reference_of_the_configuration_is_that_of_the_watches_of_its_resource() -> None:
    for watch in ({"resource": "pods"}, {"resource": "*"}, {"resource": "pods", "namespace": "web"}):
        config = Config.model_validate({"watch": [watch], "reference": "pods"})
        (wanted,) = desired_watches(config, CATALOGUE, 1).watches.values()
        assert wanted.watch.reference
    config = Config.model_validate({"watch": [{"resource": "*"}], "reference": "things1"})
    found = desired_watches(config, CROWDED, 1).watches
    assert [label for label, wanted in found.items() if wanted.watch.reference] == ["things1"]


def test_reference_of_the_configuration_asks_as_that_of_a_watch() -> None:
    config = Config.model_validate({"watch": [{"resource": "pods"}], "reference": "pods"})
    (wanted,) = desired_watches(config, CATALOGUE, 1).watches.values()
    assert wanted.request == question(resource="pods", reference=True)


def shard(index: int, **keys: object) -> DesiredWatches:
    return desired_watches(Config.model_validate({"shard": {"index": index, "count": 3}, **keys}), CROWDED, 1)


def test_shards_divide_all_resources() -> None:
    star = [{"resource": "*"}]
    plans = [shard(index, watch=star) for index in range(3)]
    assert sorted(label for found in plans for label in found.watches) == sorted(one.key for one in MANY)
    for found in plans:
        assert 0 < len(found.watches) == len(MANY) - found.elsewhere
        assert found.left_out == 0


def test_limit_applies_to_each_shard() -> None:
    star = [{"resource": "*"}]
    whole, limited = shard(0, watch=star), shard(0, watch=star, limits={"watches": 4})
    assert len(limited.watches) == 4
    assert limited.elsewhere == whole.elsewhere
    assert limited.left_out == len(whole.watches) - 4


def test_missing_resource_is_reported_by_every_shard() -> None:
    assert all(shard(index, watch=[{"resource": "nothing"}]).missing for index in range(3))


def test_shards_divide_by_label() -> None:
    """One resource may be watched several times under different names."""
    watches = [{"resource": "things0", "name": f"mine-{number}"} for number in range(30)]
    assert all(shard(index, watch=watches).watches for index in range(3))


DIVIDED = {"resource": "things0", "divide": {"by": "shardSelector", "parts": 6}}


def test_shards_have_equally_many_parts() -> None:
    plans = [shard(index, watch=[DIVIDED]) for index in range(3)]
    assert sorted(label for found in plans for label in found.watches) == [f"things0/{part}" for part in range(1, 7)]
    assert [(len(found.watches), found.elsewhere) for found in plans] == [(2, 4)] * 3
    selectors = {wanted.watch.shard_selector for found in plans for wanted in found.watches.values()}
    assert len(selectors) == 6


def test_star_does_not_watch_a_divided_resource_as_a_whole() -> None:
    watches = [DIVIDED, {"resource": "*"}]
    labels = [label for index in range(3) for label in shard(index, watch=watches).watches]
    assert sorted(labels) == sorted([f"things0/{part}" for part in range(1, 7)] + [one.key for one in MANY[1:]])


def test_resource_without_namespaces_cannot_be_divided_by_them() -> None:
    nodes = Catalogue([GroupVersion("", "v1", (Offer(Resource("", "v1", "nodes", namespaced=False), VERBS),))])
    watch = {"resource": "nodes", "divide": {"by": "namespace", "values": ["ci"]}}
    assert desired_watches(Config.model_validate({"watch": [watch]}), nodes, 1).missing == (
        "nodes cannot be divided by namespace, because its objects have none; divide it by label",
    )
