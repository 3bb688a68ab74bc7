"""The labels of the metrics and, if they are known beforehand, all their values."""

from dataclasses import dataclass, fields

from watchslo.latency import track
from watchslo.reaction.steps import Unmeasured
from watchslo.snapshot import (
    BurstReason,
    Cause,
    DelayPartName,
    Guarantee,
    Hop,
    OverallVerdict,
    ReactionStep,
    ReadUse,
    StorageKind,
    StoreVerdict,
)
from watchslo.watch import audit
from watchslo.watch.failure import LIST_FAILURES, CloseClass, Phase, Reason
from watchslo.watch.messages import RelistReason, Unseen
from watchslo.watch.strategy import STRATEGIES


@dataclass(frozen=True, slots=True)
class Label:
    """A label; `values` is empty if they depend on the cluster or the configuration."""

    name: str
    meaning: str
    values: tuple[str, ...] = ()


APISERVER = Label("apiserver", "the apiserver that was asked: `service`, or host:port")
WATCH = (
    Label("watch", "the configured name of the watch"),
    Label("group", "its API group, empty for the core group"),
    Label("resource", "its resource, in the plural"),
    APISERVER,
)
DOMAIN = Label("domain", "the name of the domain")
QUANTILE = Label(
    "q",
    "quantile of the window; by default 0.5 and 0.99, and 0.9 with `full`; `quantiles` of the configuration may name "
    "others, such as that of an objective",
    ("0.5", "0.9", "0.99", "0.999"),
)
WINDOW = Label("window", "length of the rolling window; 5m with `full` only", ("1m", "5m"))
BOUND = Label(
    "bound",
    "the estimate, or if ticks take too long to measure it the limit that it is below; a proven bound of the window's "
    "true quantile, or an end of the interval that holds it in 90% of windows; the median has no bounds",
    ("lower", "estimate", "limit", "upper", "probable_lower", "probable_upper"),
)
END = Label(
    "bound",
    "end of the proven interval; an infinite end is absent; `upper` of the headroom with `full` only",
    ("lower", "upper"),
)
HOPS = tuple(hop for hop in Hop if hop is not Hop.ENCODING_TO_CLIENT)  # which has a metric of its own
HOP = Label("hop", "the hop; `creation_to_storage` with `full` only", HOPS)
DELAY_PART = Label("part", "part of the delay; `rest` is what the others leave", tuple(DelayPartName))
OWN_DURATION = Label(
    "of",
    "what takes so long: dispatch of events, requests for single objects to etcd, reads that wait for the watch cache, "
    "calls of conversion or of validating webhooks",
    ("dispatch", "etcd", "read_wait", "conversion", "admission"),
)
TICKS = Label("ticks", "the ticks of all apiservers, as in all other metrics, or its own only", ("all", "own"))
CENTRE = Label("q", "quantile of the last minute", ("0.5", "0.99"))
P99_ONLY = Label("q", "quantile of the last minute", ("0.99",))
CAUSE = Label("cause", "the named reason for lateness", tuple(Cause))
CAUSE_APISERVER = Label("apiserver", "the apiserver at fault; empty if it is not a single one")
CAUSE_WATCH = Label("watch", "the configured name of the watch at fault; empty if it is not a single one")
EVENT_VERDICT = Label(
    "verdict", "the proven bounds of an event compared with the threshold", ("within", "beyond", "uncertain")
)
ESTIMATE_VERDICT = Label(
    "verdict", "the estimated latency of an event compared with the threshold", ("within", "beyond")
)
WINDOW_VERDICT = Label(
    "verdict",
    "the events of a window compared with the threshold, by their proven bounds or with 95% confidence",
    ("good", "bad", "undecided", "no_data"),
)
OVERALL_VERDICT = Label(
    "verdict",
    "the verdict on all watches, as the page shows it; with `mode: node` the present one only",
    tuple(OverallVerdict),
)
TARGET = Label("kind", "share of events, or of windows", ("events", "minutes"))
EVENT_TYPE = Label(
    "type", "type of the watch event; `error` with `full` only", ("added", "modified", "deleted", "error")
)
UNMEASURED = Label("reason", "why an event is not a sample", track.UNMEASURED)
CLASS = Label("class", "which party ended the watch; not `own` and `expired` with `mode: node`", tuple(CloseClass))
CLOSED = Label("reason", "why the watch ended", tuple(Reason))
LIST_FAILURE = Label("reason", "why the list failed", tuple(LIST_FAILURES))
RELIST = Label(
    "reason",
    "why a list was needed; only `expired` and `errors` with `basic`",
    tuple(RelistReason),
)
PHASE = Label("phase", "which request got the 410: a list, the opening of a watch, an open watch", tuple(Phase))
STRATEGY = Label("strategy", "how a watch obtains the revision to begin from", tuple(STRATEGIES))
UNSEEN = Label("kind", "what happened to an object in a gap", tuple(field.name for field in fields(Unseen)))
GUARANTEE = Label("guarantee", "what a watch guarantees", tuple(Guarantee))
AUDIT = Label("result", "the result of an audit", tuple(audit.AuditResult))
TICK_RESULT = Label("result", "how a tick ended", ("ok", "slow", "failed"))
READ_USE = Label("use", "what the read was for; `contradicted` if the ticks contradict it", tuple(ReadUse))
BURST_REASON = Label("reason", "why ticks were sent more often", tuple(BurstReason))
STEP = Label("step", "what was asked for, and done", tuple(ReactionStep))
NO_REACTION = Label("reason", "why there is no sample", tuple(Unmeasured))
CLIENT = Label("client", "the program: its configured name, or `kube-apiserver/` and an apiserver")
READ_VERDICT = Label("verdict", "the worst of all caches on the page", tuple(StoreVerdict))
KIND = Label("kind", "the purpose of a request")
STORAGE_KIND = Label("kind", "what the revisions of a storage are", tuple(StorageKind))
CODE = Label("code", "HTTP status code of the answer, or the kind of failure if there was none")
BUILD = (
    Label("version", "watchslo's version"),
    Label("revision", "revision of its source"),
    Label("python_version", "Python's version"),
)
