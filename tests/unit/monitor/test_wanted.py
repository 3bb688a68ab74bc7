"""Which streams a new configuration leaves alone."""

from watchslo.config import Config, WatchConfig
from watchslo.kube.discovery import Catalogue, GroupVersion, Offer
from watchslo.model import Resource
from watchslo.monitor.wanted import plan

PODS = Resource("", "v1", "pods", namespaced=True)
CATALOGUE = Catalogue([GroupVersion("", "v1", (Offer(PODS, frozenset({"list", "watch"})),))])


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
