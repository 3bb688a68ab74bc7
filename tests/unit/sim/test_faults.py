from random import Random

import pytest

from watchslo.errors import ConfigError
from watchslo.sim.delay_law import parse_law
from watchslo.sim.delays import DelayTable
from watchslo.sim.faults import FAULTS, Faults, SimHop, WatchDisruption


def faults() -> Faults:
    return Faults(Random(7))


def test_every_fault_can_be_switched_on_and_has_a_description() -> None:
    on = faults()
    for name, fault in FAULTS.items():
        active = on.switch_on(name)
        assert fault.words[0].islower()
        assert not fault.words.endswith(".")
        assert (active.law is not None) == bool(fault.law)
    assert len(list(on)) == len(FAULTS)


def test_every_fault_has_an_effect() -> None:
    for fault in FAULTS.values():
        does = (fault.law, fault.held, fault.response, fault.disruption, fault.clock, fault.stale, fault.window)
        assert any(does) or fault.on_resume or fault.withholds_tables, fault.name
        assert (fault.edit is not None) == (fault.disruption is WatchDisruption.EDIT or fault.on_resume), fault.name


def test_fault_affects_one_resource_or_all() -> None:
    on = faults()
    on.switch_on("slow-watch", "pods")
    on.switch_on("frozen-cache")
    law = on.law(SimHop.CLIENT, "pods")
    assert law is not None
    assert law.text == FAULTS["slow-watch"].law
    assert on.law(SimHop.CLIENT, "nodes") is None
    assert on.law(SimHop.STORAGE, "pods") is None
    assert on.held(SimHop.STORAGE, "nodes")
    assert not on.held(SimHop.CLIENT, "nodes")
    on.switch_off("slow-watch", "pods")
    on.switch_off("slow-watch", "pods")
    assert on.law(SimHop.CLIENT, "pods") is None


def test_newest_law_is_in_force_and_can_be_overridden() -> None:
    on = faults()
    on.switch_on("slow-watch")
    active = on.switch_on("bursts", law="constant 1s")
    assert on.law(SimHop.CLIENT, "pods") is active.law


def test_fault_response_affects_a_share_of_its_verbs() -> None:
    on = faults()
    on.switch_on("gone", "pods")
    responses = [on.response("pods", "watch") for _ in range(1000)]
    assert 400 < sum(response is not None for response in responses) < 600
    assert on.response("pods", "list") is None
    assert on.response("nodes", "watch") is None
    on.switch_on("unreachable")
    assert on.response("*", "discover") is not None


def test_faults_shift_the_clock_and_mark_groups_stale() -> None:
    on = faults()
    assert on.clock == 0.0
    on.switch_on("clock-step")
    on.switch_on("stale-group", "leases.coordination.k8s.io")
    assert on.clock == 3600.0
    assert on.stale("leases.coordination.k8s.io")
    assert not on.stale("pods")


def test_smallest_window_of_all_faults_applies() -> None:
    on = faults()
    assert on.window("pods") is None
    on.switch_on("short-history", "pods")
    assert on.window("pods") == FAULTS["short-history"].window
    assert on.window("nodes") is None
    on.switch_on("stale-close")
    assert on.closes_silently("nodes")
    assert not faults().closes_silently("nodes")


def test_only_watches_of_the_faults_resource_are_edited_when_they_resume() -> None:
    on = faults()
    on.switch_on("skipped-resume", "pods")
    on.switch_on("lost-event")
    assert on.resume_edits("pods") == {"skipped-resume": FAULTS["skipped-resume"].edit}
    assert on.resume_edits("nodes") == {}


def test_unknown_fault_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ConfigError, match="slow-watch"):
        faults().switch_on("gremlins")
    with pytest.raises(ConfigError, match="slow-watch"):
        faults().switch_off("gremlins")


def test_fault_law_overrides_resource_law_and_that_overrides_general_law() -> None:
    on = faults()
    delays = DelayTable(on)
    pods, nodes = delays.hop_delay(SimHop.CLIENT, "pods"), delays.hop_delay(SimHop.CLIENT, "nodes")
    assert pods.law.text == "none"
    delays.set(SimHop.CLIENT, "*", parse_law("constant 1"))
    delays.set(SimHop.CLIENT, "pods", parse_law("constant 2"))
    assert (pods.law.text, nodes.law.text) == ("constant 2", "constant 1")
    on.switch_on("slow-watch", "pods")
    delays.apply()
    assert (pods.law.text, nodes.law.text) == (FAULTS["slow-watch"].law, "constant 1")
    on.switch_off("slow-watch", "pods")
    delays.apply()
    assert pods.law.text == "constant 2"
    delays.set(SimHop.CLIENT, "*", parse_law("constant 3"))
    assert (pods.law.text, delays.hop_delay(SimHop.STORAGE, "pods").law.text) == ("constant 3", "none")
