"""Watches with selectors, compared with a watch of all objects of the resource."""

import asyncio
import json
from collections.abc import Sequence
from typing import Any, cast

import pytest

from tests.unit.monitor.auditing import Audits, FakeWatch, Past
from tests.unit.monitor.cluster import NODES, PODS
from watchslo.config.sections.watch import WatchConfig
from watchslo.kube.call import Selectors
from watchslo.kube.representation import Representation
from watchslo.model import Resource
from watchslo.monitor.protocol.watch_identity import WatchIdentity
from watchslo.snapshot import Guarantee
from watchslo.watch.audit import AuditResult
from watchslo.watch.selection import selection_of

WEB, DB = {"app": "web"}, {"app": "db"}
SELECTOR = "app=web"


class Labelled(Past):
    """A cluster with one watch of all pods and one with a label selector.

    Each commit changes a pod with the next labels. The apiserver does not show the revisions in `hidden` to watches
    with the selector, and shows those in `leaked` to them, whatever their labels.
    """

    def __init__(self) -> None:
        super().__init__(PODS, PODS)
        self.everything, self.web = self.streams
        self.web.selectors = Selectors(labels=SELECTOR)
        self.web.selection = selection_of(None, None, SELECTOR)
        self.labels: dict[int, dict[str, str]] = {}
        self.deleted: set[int] = set()
        self.hidden: set[int] = set()
        self.leaked: set[int] = set()
        self.lost: set[int] = set()  # shown to each watch but the one that lost them

    def change(self, labels: dict[str, str]) -> int:
        self.labels[self.revision + 1] = labels
        return self.commit()

    def shows(self, selectors: Selectors, revision: int) -> bool:
        is_selected = self.labels[revision] == WEB
        return not selectors.labels or revision in self.leaked or (is_selected and revision not in self.hidden)

    def lines(self, revisions: Sequence[int], selectors: Selectors) -> bytes:
        return b"".join(self.line(revision) for revision in revisions if self.shows(selectors, revision))

    def line(self, revision: int) -> bytes:
        metadata = {"resourceVersion": str(revision), "labels": self.labels[revision]}
        kind = "DELETED" if revision in self.deleted else "MODIFIED"
        return json.dumps({"type": kind, "object": {"metadata": metadata}}).encode() + b"\n"

    def tell(self, resource: Resource, revision: int) -> None:
        assert resource is PODS
        for stream in self.streams:
            if self.shows(stream.selectors, revision) and revision not in self.lost:
                stream.commit(revision)


async def alternate(past: Labelled, seconds: int, *kinds: dict[str, str]) -> None:
    """Change a pod of each kind every second, by default of both."""
    for _ in range(seconds):
        for labels in kinds or (WEB, DB):
            past.change(labels)
        await asyncio.sleep(1.0)


def checks(watch: FakeWatch) -> int:
    return watch.guarantees.reading(0).checked[Guarantee.FILTERED]


async def test_healthy_selectors_are_checked_without_a_violation() -> None:
    past = Labelled()
    async with Audits(past, replays=True) as audits:
        await alternate(past, 60)
        assert audits.found <= {AuditResult.ALIVE}
    assert checks(past.web) >= 60  # by its own replays and by those of the watch of everything
    assert checks(past.everything) == 0
    assert past.web.violated == past.everything.violated == {}
    assert set(past.asked_forms) == {Representation.METADATA}


async def test_nothing_is_checked_unless_events_are_read_a_second_time() -> None:
    past = Labelled()
    async with Audits(past):
        await alternate(past, 60)
    assert checks(past.web) == 0


async def meet(past: Labelled, labels: dict[str, str], *faults: str) -> None:
    """Change pods for a minute; the faults apply to one change of a pod with these labels."""
    async with Audits(past, replays=True):
        await alternate(past, 20)
        for fault in faults:
            getattr(past, fault).add(past.revision + 1)
        past.change(labels)
        await alternate(past, 40)


NOTHING: dict[str, int] = {}
FILTERED, RELIABLE = {"filtered": 1}, {"reliable": 1}


@pytest.mark.parametrize(
    ("labels", "faults", "of_web", "of_everything"),
    [
        (DB, ["leaked"], FILTERED, NOTHING),
        (WEB, ["hidden"], FILTERED, NOTHING),
        (WEB, ["lost"], RELIABLE, RELIABLE),
        # A deleted object may have stopped matching before.
        (WEB, ["hidden", "deleted"], NOTHING, NOTHING),
    ],
    ids=[
        "excluded event is shown",
        "selected event is not shown",
        "both watches lost it",
        "deleted event is not shown",
    ],
)
async def test_violation_is_that_of_the_selectors_only_if_watches_with_them_show_it(
    labels: dict[str, str], faults: list[str], of_web: dict[str, int], of_everything: dict[str, int]
) -> None:
    past = Labelled()
    await meet(past, labels, *faults)
    assert (past.web.violated, past.everything.violated) == (of_web, of_everything)


async def test_watch_of_unproven_revisions_is_not_judged() -> None:
    past = Labelled()
    past.web.measured = False
    await meet(past, DB, "leaked")
    assert past.web.violated == {}


async def test_selection_that_is_not_exact_shows_only_what_should_not_have_come() -> None:
    past = Labelled()
    past.web.selection = selection_of(None, "spec.nodeName=n", SELECTOR)
    await meet(past, WEB, "hidden")
    assert past.web.violated == {}
    await meet(past, DB, "leaked")
    assert past.web.violated == {"filtered": 1}


async def test_missing_event_of_a_quiet_watch_is_found_once_a_bookmark_has_passed_it() -> None:
    past = Labelled()
    async with Audits(past, replays=True):
        await alternate(past, 20)
        past.hidden.add(past.revision + 1)
        past.change(WEB)
        await alternate(past, 60, DB)
        assert past.web.violated == {}
        past.web.mark(past.revision)
        await alternate(past, 30, DB)
    assert past.web.violated == {"filtered": 1}


async def test_missing_event_is_looked_for_again_after_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    past = Labelled()
    async with Audits(past) as audits:
        replay, failing = audits.auditor.replay, [None, None]

        async def fail_twice(*arguments: Any) -> Sequence[int] | None:
            return failing.pop() if failing else await replay(*arguments)

        monkeypatch.setattr(audits.auditor._selectors, "_replay", fail_twice)
        audits.replays = True
        await alternate(past, 20)
        past.hidden.add(past.revision + 1)
        past.change(WEB)
        await alternate(past, 60)
        assert not failing
    assert past.web.violated == {"filtered": 1}


async def test_nothing_is_kept_of_a_watch_that_has_ended() -> None:
    past = Labelled()
    async with Audits(past, replays=True) as audits:
        await alternate(past, 30)
        assert audits.auditor._selectors._due
        for stream in (past.streams.pop(), past.streams.pop()):
            audits.auditor.remove(cast("Any", stream))
        assert not audits.auditor._selectors._due


@pytest.mark.parametrize(("resource", "selected"), [(PODS, True), (NODES, False)])
def test_namespace_limits_only_objects_that_have_one(resource: Resource, *, selected: bool) -> None:
    """A watch of nodes "in a namespace" is a watch of all nodes."""
    config = WatchConfig(resource=resource.plural, namespace="shop")
    identity = WatchIdentity(1, "it", config, resource, Past(PODS).apiserver, 1000, "shop")
    assert (identity.namespace, identity.selection is not None) == ("shop" if selected else None, selected)
