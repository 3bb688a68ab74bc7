from random import Random

from watchslo.sim.delay_law import parse_law
from watchslo.sim.delays import DelayTable
from watchslo.sim.faults import FAULTS, Faults, SimHop


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
