from random import Random

import pytest

from watchslo.errors import ConfigError
from watchslo.sim.delay import parse_law
from watchslo.sim.faults import FAULTS, Faults, Hop
from watchslo.sim.ways import Ways


def faults() -> Faults:
    return Faults(Random(7))


def test_every_fault_can_be_switched_on_and_says_what_it_is() -> None:
    on = faults()
    for name, fault in FAULTS.items():
        active = on.switch_on(name)
        assert fault.words[0].islower()
        assert not fault.words.endswith(".")
        assert (active.law is not None) == bool(fault.law)
    assert len(list(on)) == len(FAULTS)


def test_every_fault_does_something() -> None:
    for fault in FAULTS.values():
        does = (fault.law, fault.held, fault.answer, fault.blow, fault.clock, fault.stale, fault.window)
        assert any(does), fault.name


def test_a_fault_is_about_one_resource_or_all() -> None:
    on = faults()
    on.switch_on("slow-watch", "pods")
    on.switch_on("frozen-cache")
    law = on.law(Hop.CLIENT, "pods")
    assert law is not None
    assert law.text == FAULTS["slow-watch"].law
    assert on.law(Hop.CLIENT, "nodes") is None
    assert on.law(Hop.STORAGE, "pods") is None
    assert on.held(Hop.STORAGE, "nodes")
    assert not on.held(Hop.CLIENT, "nodes")
    on.switch_off("slow-watch", "pods")
    on.switch_off("slow-watch", "pods")
    assert on.law(Hop.CLIENT, "pods") is None


def test_the_newest_law_is_in_force_and_can_be_written_anew() -> None:
    on = faults()
    on.switch_on("slow-watch")
    active = on.switch_on("bursts", law="constant 1s")
    assert on.law(Hop.CLIENT, "pods") is active.law


def test_answers_take_a_share_of_certain_verbs() -> None:
    on = faults()
    on.switch_on("gone", "pods")
    answers = [on.answer("pods", "watch") for _ in range(1000)]
    assert 400 < sum(answer is not None for answer in answers) < 600
    assert on.answer("pods", "list") is None
    assert on.answer("nodes", "watch") is None
    on.switch_on("unreachable")
    assert on.answer("*", "discover") is not None


def test_clocks_and_discovery() -> None:
    on = faults()
    assert on.clock == 0.0
    on.switch_on("clock-step")
    on.switch_on("stale-group", "leases.coordination.k8s.io")
    assert on.clock == 3600.0
    assert on.stale("leases.coordination.k8s.io")
    assert not on.stale("pods")


def test_a_watch_cache_remembers_as_little_as_any_fault_says() -> None:
    on = faults()
    assert on.window("pods") is None
    on.switch_on("short-history", "pods")
    assert on.window("pods") == FAULTS["short-history"].window
    assert on.window("nodes") is None
    on.switch_on("stale-close")
    assert on.mute("nodes")
    assert not faults().mute("nodes")


def test_an_unknown_fault_is_refused_with_those_there_are() -> None:
    with pytest.raises(ConfigError, match="slow-watch"):
        faults().switch_on("gremlins")
    with pytest.raises(ConfigError, match="slow-watch"):
        faults().switch_off("gremlins")


def test_a_faults_law_comes_first_then_the_resources_own_then_that_for_all() -> None:
    on = faults()
    ways = Ways(on)
    pods, nodes = ways.way(Hop.CLIENT, "pods"), ways.way(Hop.CLIENT, "nodes")
    assert pods.law.text == "none"
    ways.set(Hop.CLIENT, "*", parse_law("constant 1"))
    ways.set(Hop.CLIENT, "pods", parse_law("constant 2"))
    assert (pods.law.text, nodes.law.text) == ("constant 2", "constant 1")
    on.switch_on("slow-watch", "pods")
    ways.apply()
    assert (pods.law.text, nodes.law.text) == (FAULTS["slow-watch"].law, "constant 1")
    on.switch_off("slow-watch", "pods")
    ways.apply()
    assert pods.law.text == "constant 2"
    ways.set(Hop.CLIENT, "*", parse_law("constant 3"))
    assert (pods.law.text, ways.way(Hop.STORAGE, "pods").law.text) == ("constant 3", "none")
