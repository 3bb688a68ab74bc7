"""Which streams should run, and which of them a new configuration leaves alone."""

from watchslo.config import Config, WatchConfig
from watchslo.kube.discovery import Catalogue, GroupVersion, Offer
from watchslo.model import Resource
from watchslo.monitor.wanted import Plan, plan

PODS = Resource("", "v1", "pods", namespaced=True)
VERBS = frozenset({"list", "watch"})
CATALOGUE = Catalogue([GroupVersion("", "v1", (Offer(PODS, VERBS),))])
MANY = [Resource("", "v1", f"things{number}", namespaced=True) for number in range(30)]
CROWDED = Catalogue([GroupVersion("", "v1", tuple(Offer(resource, VERBS) for resource in MANY))])


def question(**keys: object) -> object:
    """What the apiserver is asked for an entry of the configuration that comes to one watch."""
    config = Config(watch=(WatchConfig.model_validate(keys),))
    (wanted,) = plan(config, CATALOGUE, 1).watches.values()
    return wanted.question


def test_it_does_not_matter_by_which_name_it_is_asked_for() -> None:
    asked = question(resource="pods")
    assert asked == question(resource="*")
    assert asked == question(resource="pods.v1")
    assert asked == question(resource="pods", name="mine")


def test_it_does_not_matter_whether_caches_are_read() -> None:
    assert question(resource="pods") == question(resource="pods", hops=True)


def test_what_is_asked_matters() -> None:
    asked = question(resource="pods")
    for other in ({"namespace": "default"}, {"labelSelector": "a=b"}, {"list": "paged"}, {"creation": False}):
        assert asked != question(resource="pods", **other)


def shard(index: int, **keys: object) -> Plan:
    return plan(Config.model_validate({"shard": {"index": index, "count": 3}, **keys}), CROWDED, 1)


def test_shards_divide_what_everything_comes_to() -> None:
    star = [{"resource": "*"}]
    plans = [shard(index, watch=star) for index in range(3)]
    assert sorted(label for found in plans for label in found.watches) == sorted(one.key for one in MANY)
    for found in plans:
        assert 0 < len(found.watches) == len(MANY) - found.elsewhere
        assert found.left_out == 0


def test_the_limit_is_for_each_shard() -> None:
    star = [{"resource": "*"}]
    whole, limited = shard(0, watch=star), shard(0, watch=star, limits={"watches": 4})
    assert len(limited.watches) == 4
    assert limited.elsewhere == whole.elsewhere
    assert limited.left_out == len(whole.watches) - 4


def test_what_does_not_exist_is_missing_in_every_shard() -> None:
    assert all(shard(index, watch=[{"resource": "nothing"}]).missing for index in range(3))


def test_it_is_the_label_that_is_shared_out() -> None:
    """One resource may be watched many times, under names of their own."""
    watches = [{"resource": "things0", "name": f"mine-{number}"} for number in range(30)]
    assert all(shard(index, watch=watches).watches for index in range(3))
