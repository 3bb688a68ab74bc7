"""Compares the settings of informers with the same strategy without them: one sentence for each."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from rich.filesize import decimal

from watchslo.kube.representation import Representation
from watchslo.rehearse.outcome import Outcome, seconds, took
from watchslo.rehearse.variant import ALL_OBJECTS, Variant
from watchslo.timeline.format import counted, duration
from watchslo.watch.strategy import PAGE_SIZE

CLEARLY = 1.2  # times as long or as large: less than that may be chance

_USES = {
    Representation.TABLE: "for clients that need only the columns of kubectl get",
    Representation.METADATA: "for clients that need neither spec nor status",
}
_SAME_OBJECTS = "the same objects, for clients that can decode them"


def compare_settings(found: Mapping[str, Outcome]) -> tuple[str, ...]:
    """Return a sentence about each setting; combinations of several are only compared by the table."""
    return tuple(_each(found))


def _each(found: Mapping[str, Outcome]) -> Iterator[str]:
    for outcome in found.values():
        variant = replace(outcome.typical.variant, strategy=outcome.strategy)
        without = found.get(_without_its_setting(variant).label)
        if variant.settings and without and without is not outcome and without.holds and outcome.holds:
            yield _compared(variant, outcome, without)
    yield from _best_page_size(found)


def _without_its_setting(variant: Variant) -> Variant:
    """Return what to compare with: without compression, or without any setting if it has only one."""
    if variant.gzip:
        return replace(variant, gzip=False)
    return Variant(variant.strategy) if len(variant.settings) == 1 else variant


def _compared(variant: Variant, outcome: Outcome, without: Outcome) -> str:
    run, plain = outcome.typical, without.typical
    times = f"{took(outcome)} instead of {took(without)}"
    sizes = f"{decimal(run.size)} instead of {decimal(plain.size)}"
    if variant.gzip:
        return f"{outcome.label}: {sizes} in {times}; {_judge_gzip(outcome, without)}."
    if variant.each_namespace:
        requests = f"{run.requests:,} instead of {counted(plain.requests, 'request')}"
        informers = f"{counted(run.informers, 'informer')}, one for each namespace"
        return f"{informers}: {requests}, {times}; {_judge_split(outcome, without)}."
    if variant.selectors != ALL_OBJECTS:
        objects = f"{run.objects:,} of {counted(plain.objects, 'object')}"
        return f"{outcome.label}: {objects}, {sizes}, {times}{_unfiltered(outcome, without)}."
    if variant.page_size != PAGE_SIZE:
        pages = f"{counted(run.pages, 'page')} instead of {plain.pages:,}"
        return f"{outcome.label}: {pages}, {times}."
    if run.representation is not variant.representation:
        return f"{outcome.label}: the apiserver does not send this resource so; it was sent as {run.representation}."
    return f"{outcome.label}: {sizes}, {times}; {_USES.get(variant.representation, _SAME_OBJECTS)}."


def _judge_gzip(outcome: Outcome, without: Outcome) -> str:
    if outcome.typical.size * CLEARLY > without.typical.size:
        return "apiservers compress only answers of more than 128 KiB"
    if seconds(outcome) > seconds(without) * CLEARLY:
        return "it costs time and CPU, and pays only over slow or expensive networks"
    spent, usual = _cpu(outcome), _cpu(without)
    if spent is not None and usual is not None and spent > usual * CLEARLY:
        return f"it is as fast, but the apiserver spends {duration(spent)} of CPU instead of {duration(usual)}"
    return "it is as fast, and saves bytes"


def _cpu(outcome: Outcome) -> float | None:
    """Return the CPU seconds of the apiserver in the typical run, if they are known."""
    cost = outcome.typical.cost
    return None if cost is None or cost.unknown else cost.cpu


def _judge_split(outcome: Outcome, without: Outcome) -> str:
    if seconds(outcome) * CLEARLY < seconds(without):
        return "it is faster, but keeps a watch open for each namespace"
    return "use one informer for all namespaces"


def _unfiltered(outcome: Outcome, without: Outcome) -> str:
    """Say so if most objects were left out, and little time was saved."""
    is_small = outcome.typical.size * 2 < without.typical.size
    is_slow = seconds(outcome) * CLEARLY > seconds(without)
    return "; the apiserver reads all objects to select these" if is_small and is_slow else ""


def _paged(strategy: str, outcome: Outcome) -> Variant:
    """Return the variant with the page size of an outcome and no other setting."""
    return Variant(strategy, page_size=outcome.typical.variant.page_size)


def _best_page_size(found: Mapping[str, Outcome]) -> Iterator[str]:
    """Name the page size that is clearly faster than the usual one, if there is one."""
    varied = (outcome for outcome in found.values() if outcome.typical.variant.page_size != PAGE_SIZE)
    for strategy in dict.fromkeys(outcome.strategy for outcome in varied):
        usual = found.get(strategy)
        sizes = [
            outcome
            for outcome in found.values()
            if outcome.holds and outcome is not usual and outcome.label == _paged(strategy, outcome).label
        ]
        if usual is None or not usual.holds or not sizes:
            continue
        best = min(sizes, key=seconds)
        if seconds(best) * CLEARLY < seconds(usual):
            yield f"Use pages of {best.typical.variant.page_size:,}: they are the fastest."
        else:
            yield f"Pages of {PAGE_SIZE:,} are as fast as others."
