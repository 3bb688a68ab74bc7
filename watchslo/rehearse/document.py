"""The results of a rehearsal as JSON. Keys are a contract: they are added, and none is changed."""

import math

from watchslo.kube.credentials import ClusterPlace
from watchslo.rehearse.advice import Advice
from watchslo.rehearse.apiserver_process import ApiserverCost
from watchslo.rehearse.headroom import Headroom
from watchslo.rehearse.rehearsal import Rehearsal
from watchslo.rehearse.trial import Trial


def document(trial: Trial, advice: Advice | None, place: ClusterPlace | None) -> dict[str, object]:
    """Return the results for JSON, in seconds and bytes; null for unknown values."""
    return {
        "context": place and place.context,
        "server": place and place.shown_server,
        "resource": trial.resource.plural,
        "group": trial.resource.group,
        "objects": trial.census and trial.census.objects,
        "bytes": trial.census and trial.census.size,
        "skipped": trial.skipped,
        "plan": trial.planned,
        "use": advice and advice.strategy,
        "why": advice and advice.reason,
        "headroom": trial.headroom and _headroom_document(trial.headroom),
        "runs": [_run_document(run) for run in trial.runs],
    }


def _headroom_document(headroom: Headroom) -> dict[str, object]:
    proven = headroom.seconds
    return {
        "oldest": headroom.oldest,
        "revisions": headroom.revisions,
        "seconds": {
            "lower": proven.lower,
            "about": headroom.about,
            "upper": proven.upper if math.isfinite(proven.upper) else None,
        },
        "complete": headroom.complete,
    }


def _run_document(run: Rehearsal) -> dict[str, object]:
    return {
        "strategy": run.strategy,
        "by": run.by,
        "synced": run.synced,
        "requests": run.requests,
        "pages": run.pages,
        "objects": run.objects,
        "bytes": run.size,
        "events": run.events,
        "buffer": run.waiting,
        "throttled": run.throttled,
        "expired": {"list": run.expired_lists, "watch": run.expired_watches},
        "fellBack": run.fell_back,
        "failure": run.failure and run.failure.message,
        "apiserver": run.cost and _cost_document(run.cost),
        "source": run.source
        and {"lists": run.source.origin, "evidence": run.source.evidence, "certain": run.source.is_certain},
    }


def _cost_document(cost: ApiserverCost) -> dict[str, object]:
    """Return the figures of the apiserver's process; all but the reason are null if they are unknown."""
    known = cost.unknown is None
    return {
        "cpu": cost.cpu if known else None,
        "memoryBefore": cost.memory_before if known else None,
        "memoryAfter": cost.memory_after if known else None,
        "unknown": cost.unknown,
    }
