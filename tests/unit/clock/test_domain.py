"""Domains: membership, sightings, the horizon, and resets when revisions go backwards."""

import pickle

import numpy as np

from watchslo.clock.domain import MOST_READS, Domain, Horizon, Membership
from watchslo.model import SERVICE, Reading
from watchslo.snapshot import StorageKind

PODS, NODES, LEASES = ((SERVICE, key) for key in ("pods", "nodes", "leases"))
TIMESTAMP = 1_753_647_547_040_015_001
PENDING, MEMBER, FOREIGN = Membership.PENDING, Membership.MEMBER, Membership.FOREIGN


def tick(sent: float, answered: float, revision: int) -> Reading:
    return Reading("events", sent, answered, revision)


def probe(sent: float, answered: float, revision: int, resource: str = "pods") -> Reading:
    return Reading(resource, sent, answered, revision)


def ticking(until: int) -> Domain:
    """Return a domain that ticks each second; its revision is 100 at time 0 and grows by ten per second."""
    domain = Domain("main")
    for second in range(until):
        assert domain.tick(tick(second, second + 0.125, 100 + 10 * second))
    return domain


def probed(domain: Domain, start: int, revisions: list[int], resource: str = "pods") -> Domain:
    """Send one probe and one tick each second from `start` on, after the last tick of the domain."""
    for second, revision in enumerate(revisions, start):
        domain.probe(probe(second - 0.5, second - 0.375, revision, resource))
        assert domain.tick(tick(second, second + 0.125, 100 + 10 * second))
    return domain


def member_with_stream() -> Domain:
    """Return a domain with the member pods; the last tick is (3, 3.125, 130), watch 7 is of pods, 8 of nodes."""
    domain = probed(ticking(1), 1, [105, 115, 125])
    domain.attach(7, PODS)
    domain.attach(8, NODES)
    return domain


def proven(domain: Domain, revision: int, received: float) -> float:
    """Return the time by which the revision was proven to be committed."""
    bounds = domain.clock.measure(np.array([revision]), np.array([received]))
    return float(received - bounds.proven[0])


class TestMembership:
    def test_new_source_is_pending(self) -> None:
        domain = Domain("main")
        assert domain.name == "main"
        assert domain.membership(PODS) is PENDING
        assert [str(membership) for membership in Membership] == ["pending", "member", "foreign"]

    def test_three_consistent_probes_make_a_member(self) -> None:
        domain = probed(ticking(1), 1, [105, 115])
        assert domain.membership(PODS) is PENDING
        probed(domain, 3, [125])
        assert domain.membership(PODS) is MEMBER
        assert domain.membership(NODES) is PENDING

    def test_probe_is_judged_by_the_next_tick(self) -> None:
        domain = ticking(1)
        assert not domain.is_judging(PODS)
        domain.probe(probe(0.5, 0.625, 105))
        assert domain.is_judging(PODS)
        assert not domain.is_judging(NODES)
        domain.tick(tick(1, 1.125, 110))
        assert not domain.is_judging(PODS)

    def test_equal_revisions_are_consistent(self) -> None:
        assert probed(ticking(1), 1, [100, 120, 120]).membership(PODS) is MEMBER

    def test_one_contradiction_makes_a_source_foreign(self) -> None:
        assert probed(ticking(1), 1, [99]).membership(PODS) is FOREIGN
        assert probed(ticking(1), 1, [111]).membership(PODS) is FOREIGN

    def test_consistent_probes_count_only_half_a_second_apart(self) -> None:
        domain = ticking(1)
        for sent in (0.25, 0.5, 0.75, 1.0, 1.125):
            domain.probe(probe(sent, sent, 100))
            domain.tick(tick(sent + 0.03125, sent + 0.0625, 100))
        assert domain.membership(PODS) is PENDING
        domain.probe(probe(1.25, 1.25, 100))
        domain.tick(tick(3, 3.125, 100))
        assert domain.membership(PODS) is MEMBER

    def test_contradicting_probe_counts_at_any_spacing(self) -> None:
        domain = probed(ticking(1), 1, [105])
        domain.probe(probe(1.25, 1.375, 105))
        domain.tick(tick(1.5, 1.625, 115))
        assert domain.membership(PODS) is FOREIGN

    def test_probe_before_the_first_tick_ended_is_ignored(self) -> None:
        domain = Domain("main")
        domain.probe(probe(0, 0.5, 1000))
        domain.tick(tick(1, 1.5, 100))
        domain.probe(probe(1.5, 1.75, 7))
        domain.tick(tick(2, 2.5, 100))
        assert domain.membership(PODS) is PENDING
        domain.probe(probe(1.625, 1.75, 7))
        domain.tick(tick(3, 3.5, 100))
        assert domain.membership(PODS) is FOREIGN

    def test_probe_waits_for_a_tick_sent_after_its_answer(self) -> None:
        domain = ticking(1)
        domain.probe(probe(0.25, 1, 99))
        domain.tick(tick(0.5, 1.25, 100))
        domain.tick(tick(1, 1.5, 100))
        assert domain.membership(PODS) is PENDING
        domain.tick(tick(1.125, 1.5, 100))
        assert domain.membership(PODS) is FOREIGN

    def test_second_waiting_probe_is_ignored(self) -> None:
        domain = ticking(1)
        domain.probe(probe(0.25, 0.375, 100))
        domain.probe(probe(0.5, 0.625, 99))
        domain.tick(tick(1, 1.125, 110))
        domain.tick(tick(2, 2.125, 110))
        assert domain.membership(PODS) is PENDING

    def test_probe_is_judged_by_the_ticks_around_it(self) -> None:
        domain = ticking(3)
        domain.probe(probe(1.25, 1.5, 121))
        domain.tick(tick(3, 3.125, 130))
        assert domain.membership(PODS) is FOREIGN

    def test_member_stays_while_its_probes_are_consistent(self) -> None:
        domain = probed(ticking(1), 1, [105, 115, 125, 135, 145, 155, 165])
        assert domain.membership(PODS) is MEMBER
        probed(domain, 8, [1000])
        assert domain.membership(PODS) is FOREIGN

    def test_foreign_source_becomes_pending_then_member(self) -> None:
        domain = probed(ticking(1), 1, [99, 115, 125])
        assert domain.membership(PODS) is FOREIGN
        probed(domain, 4, [135])
        assert domain.membership(PODS) is PENDING
        probed(domain, 5, [145, 155])
        assert domain.membership(PODS) is PENDING
        probed(domain, 7, [165])
        assert domain.membership(PODS) is MEMBER

    def test_foreign_sources_are_those_that_were_expelled(self) -> None:
        domain = member_with_stream()
        assert domain.foreign == set()
        domain.expel(PODS)
        assert domain.foreign == {PODS}

    def test_expelled_source_drops_its_waiting_probe(self) -> None:
        domain = probed(ticking(1), 1, [105, 115])
        domain.probe(probe(2.5, 2.625, 125))
        domain.expel(PODS)
        assert domain.membership(PODS) is FOREIGN
        domain.tick(tick(3, 3.125, 130))
        probed(domain, 4, [135, 145])
        assert domain.membership(PODS) is FOREIGN
        probed(domain, 6, [155])
        assert domain.membership(PODS) is PENDING


class TestSightings:
    def test_sightings_of_members_count(self) -> None:
        domain = member_with_stream()
        assert domain.sight(3.5, 135, 7)
        domain.tick(tick(4, 4.125, 140))
        assert proven(domain, 135, 5) == 3.5

    def test_sightings_of_other_sources_are_refused(self) -> None:
        domain = member_with_stream()
        assert not domain.sight(3.5, 135, 8)
        domain.tick(tick(4, 4.125, 140))
        assert proven(domain, 135, 5) == 4.125

    def test_violation_expels_the_source_and_drops_its_sightings(self) -> None:
        domain = member_with_stream()
        domain.attach(9, PODS)
        domain.sight(3.25, 134, 9)
        domain.sight(3.5, 141, 7)
        assert domain.tick(tick(4, 4.125, 140))
        assert domain.membership(PODS) is FOREIGN
        assert domain.membership(NODES) is PENDING
        domain.sight(4.25, 142, 9)
        domain.tick(tick(5, 5.125, 150))
        assert proven(domain, 134, 6) == 4.125
        assert proven(domain, 142, 6) == 5.125

    def test_bookmark_that_is_newer_than_a_later_tick_expels_its_source(self) -> None:
        """It is found even if it came with an event, of which it is no sighting then."""
        domain = member_with_stream()
        domain.sight(3.5, 134, 7)
        domain.mark(3.5, 200, 7)
        domain.tick(tick(3.25, 3.625, 133))  # sent before
        assert domain.membership(PODS) is MEMBER
        domain.tick(tick(4, 4.125, 140))
        assert domain.membership(PODS) is FOREIGN
        assert domain.membership(NODES) is PENDING

    def test_bookmarks_of_other_sources_and_detached_watches_are_not_judged(self) -> None:
        domain = member_with_stream()
        domain.mark(3.5, 200, 8)
        domain.mark(3.5, 200, 7)
        domain.detach(7)
        domain.tick(tick(4, 4.125, 140))
        assert domain.membership(PODS) is MEMBER

    def test_what_an_audit_still_reads_of_a_detached_watch_is_no_sighting(self) -> None:
        domain = member_with_stream()
        domain.detach(7)
        assert not domain.sight(3.5, 134, 7)
        domain.mark(3.5, 200, 7)
        domain.tick(tick(4, 4.125, 140))
        assert domain.membership(PODS) is MEMBER

    def test_expelling_a_source_keeps_the_sightings_of_others(self) -> None:
        domain = member_with_stream()
        domain.sight(3.5, 135, 7)
        domain.expel(NODES)
        domain.tick(tick(4, 4.125, 140))
        assert proven(domain, 135, 5) == 3.5
        domain.expel(PODS)
        assert proven(domain, 135, 5) == 4.125

    def test_detach_drops_the_sightings_of_the_watch(self) -> None:
        domain = member_with_stream()
        domain.sight(3.5, 135, 7)
        domain.detach(7)
        domain.tick(tick(4, 4.125, 140))
        assert proven(domain, 135, 5) == 4.125
        domain.attach(7, PODS)
        domain.sight(4.5, 145, 7)
        domain.tick(tick(5, 5.125, 150))
        assert proven(domain, 145, 6) == 4.5


class TestBounds:
    def test_retain_forgets_all_other_sources(self) -> None:
        domain = member_with_stream()
        domain.expel(LEASES)
        domain.probe(probe(3.25, 3.375, 9, "nodes"))
        domain.retain({PODS})
        assert domain.membership(PODS) is MEMBER
        assert domain.membership(LEASES) is PENDING
        assert not domain.is_judging(NODES)

    def test_hundred_former_apiservers_leave_nothing_behind(self) -> None:
        domain = member_with_stream()
        before = len(pickle.dumps(domain))
        for second in range(4, 104):
            name = f"10.0.0.{second}"
            domain.attach(100 + second, (name, "pods"))
            domain.probe(Reading("pods", second - 0.5, second - 0.375, 0, name))
            domain.tick(Reading("events", second, second + 0.125, 100 + 10 * second, name))
            domain.probe(Reading("nodes", second + 0.25, second + 0.375, 0, name))
            domain.sight(second + 0.5, 101 + 10 * second, 7)
            domain.detach(100 + second)
            domain.clock.leave(name)
            domain.retain({PODS, NODES})
        assert len(domain._standings) == 1
        domain.tick(tick(4000, 4000.125, 50_000))
        assert len(pickle.dumps(domain)) < before + 2000 + 100 * 24


class TestHorizon:
    def test_horizon_is_the_tick_sent_last(self) -> None:
        assert Domain("main").horizon is None
        domain = Domain("main")
        domain.tick(tick(2, 2.125, 110))
        assert domain.horizon == Horizon(2, 110)
        domain.tick(tick(1, 2.5, 115))
        assert domain.horizon == Horizon(2, 110)


class TestResets:
    def test_tick_that_goes_backwards_resets_the_domain(self) -> None:
        domain = member_with_stream()
        domain.expel(NODES)
        domain.probe(probe(3.25, 3.5, 9, "leases"))
        domain.sight(3.5, 135, 7)
        assert not domain.tick(tick(4, 4.125, 50))
        assert domain.resets == 1
        assert [domain.membership(source) for source in (PODS, NODES)] == [PENDING, PENDING]
        assert domain.horizon == Horizon(4, 50)
        assert domain.tick(tick(5, 5.125, 140))
        assert domain.membership(LEASES) is PENDING
        assert proven(domain, 135, 6) == 5.125
        probed(domain, 6, [145])
        bounds = domain.clock.measure(np.array([50, 51]), np.array([6.0, 6.0]))
        assert bounds.measurable.tolist() == [False, True]
        assert bounds.upper.tolist()[1] == 2

    def test_watches_may_become_members_again_after_a_reset(self) -> None:
        domain = member_with_stream()
        domain.tick(tick(4, 4.125, 50))
        for second in (5, 6, 7):
            domain.probe(probe(second - 0.5, second - 0.375, 50))
            domain.tick(tick(second, second + 0.125, 50))
        domain.sight(7.5, 51, 7)
        domain.tick(tick(8, 8.125, 60))
        assert proven(domain, 51, 9) == 7.5

    def test_older_overlapping_tick_is_no_reset(self) -> None:
        domain = Domain("main")
        domain.tick(tick(1, 1.5, 100))
        assert domain.tick(tick(1.25, 1.75, 99))
        assert domain.tick(tick(1.5, 1.75, 99))
        assert domain.resets == 0
        assert not domain.tick(tick(1.625, 2, 99))
        assert domain.resets == 1
        assert not domain.tick(tick(3, 3.125, 98))
        assert domain.resets == 2

    def test_equal_revision_is_no_reset(self) -> None:
        domain = ticking(2)
        assert domain.tick(tick(3, 3.125, 110))
        assert domain.resets == 0


class TestReads:
    def test_read_of_a_member_counts_once_a_later_tick_agrees(self) -> None:
        domain = member_with_stream()
        assert domain.observe(probe(3.25, 3.375, 132))
        assert proven(domain, 132, 6) == 6
        assert domain.tick(tick(4, 4.125, 140))
        assert proven(domain, 132, 6) == 3.375

    def test_read_of_a_source_that_is_no_member_is_ignored(self) -> None:
        domain = member_with_stream()
        assert not domain.observe(probe(3.25, 3.375, 132, "nodes"))
        assert domain.tick(tick(4, 4.125, 140))
        assert proven(domain, 132, 6) == 4.125

    def test_read_that_a_tick_did_not_follow_waits(self) -> None:
        domain = member_with_stream()
        assert domain.observe(probe(3.25, 4.25, 132))
        assert domain.tick(tick(4, 4.125, 140))
        assert domain.tick(tick(5, 5.5, 150))
        assert proven(domain, 132, 6) == 4.125
        assert domain.contradicted == 0

    def test_read_that_contradicts_the_ticks_is_dropped(self) -> None:
        domain = member_with_stream()
        for revision in (99, 1000):
            assert domain.observe(probe(3.25, 3.375, revision))
        assert domain.tick(tick(4, 4.125, 140))
        assert domain.contradicted == 2
        assert domain.membership(PODS) is MEMBER
        assert domain.resets == 0
        assert proven(domain, 132, 6) == 4.125

    def test_reads_are_forgotten_when_the_storage_is_restored(self) -> None:
        domain = member_with_stream()
        assert domain.observe(probe(3.25, 3.375, 132))
        assert not domain.tick(tick(4, 4.125, 50))
        assert domain.tick(tick(5, 5.125, 60))
        assert domain.contradicted == 0

    def test_waiting_reads_are_limited(self) -> None:
        domain = member_with_stream()
        for number in range(10 * MOST_READS):
            assert domain.observe(probe(3.25 + number, 3.375 + number, 132))
        assert len(domain._reads) == MOST_READS


class TestKind:
    def test_counters_are_no_times(self) -> None:
        domain = ticking(3)
        assert domain.kind is StorageKind.SEQUENCE
        assert domain.counts
        domain.clock.learn(np.array([105]), np.array([1.0]))
        assert domain.clock.offset is None
        assert domain.clock.resolution == 0.125

    def test_commit_times_date_events_once_they_are_known_as_such(self) -> None:
        domain = Domain("main")
        counts = [domain.counts]
        for second in range(40):
            domain.tick(tick(second, second + 0.125, TIMESTAMP + 10**9 * second))
            counts.append(domain.counts)
            assert (domain.clock.offset is not None) == (domain.kind is StorageKind.TIMESTAMP)
        assert domain.kind is StorageKind.TIMESTAMP
        assert counts == [True] + 40 * [False], "it is assumed before the first tick"
        assert domain.clock.resolution == 0.125, "nothing is known of the storage's clock yet"
        revisions = np.array([TIMESTAMP + 10**9 * 38 + 1, TIMESTAMP + 10**9 * 38 + 500_000_000])
        domain.clock.learn(revisions, np.array([38.001, 38.502]))
        bounds = domain.clock.measure(revisions, np.array([38.001, 38.502]))
        assert bounds.upper[1] - bounds.lower[1] < 0.0025
        assert domain.clock.resolution is not None
        assert domain.clock.resolution < 0.0025

    def test_a_restored_storage_is_learnt_again(self) -> None:
        domain = Domain("main")
        for second in range(40):
            domain.tick(tick(second, second + 0.125, TIMESTAMP + 10**9 * second))
        offset = domain.clock.offset
        assert not domain.tick(tick(40, 40.125, TIMESTAMP))
        assert domain.clock.offset is not offset
        assert not domain.tick(tick(41, 41.125, 41))
        assert domain.clock.offset is None
