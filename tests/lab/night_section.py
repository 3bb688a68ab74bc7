"""The text of the section "A scripted night" in docs/faults.md: how it is made, and its tables. Pure."""

from collections.abc import Iterator, Mapping, Sequence

from tests.lab.documents import table
from tests.lab.figures import AlertFigures, EpisodeFigures, VerdictFigures, named_alerts, required, sort
from tests.lab.profiles import ProfileFigures
from tests.lab.statements import GOOD

HEAD = """\
## A scripted night

`make night` makes the faults of an on-call night on a real control plane, one after another, with healthy
minutes between them. The control plane has three etcd members, three kube-apiservers with addresses of their own, a
controller manager, a scheduler, and kwok, which plays the kubelets of 100 nodes. Clients roll out deployments and make
about thirty other changes a second. watchslo runs with `apiservers: each`, its default watches, config maps, and a
custom resource. A real Prometheus scrapes it every {scrape} s and evaluates the shipped rules; a real Alertmanager has
the shipped inhibitions. `python -m tests.lab night --only stopped --only slow-link` makes some of the faults.
`--stretch 4` makes all last four times as long, so that the alerts with long waits fire too, and `--minutes 0` leaves
out the healthy minutes of the profiles.

This table is of {date}: {versions}.

- *page* is `/api/v1/status`, *top* is `watchslo top` in a terminal, and *metric* is `watchslo_verdict` in Prometheus.
  *Alert* is what fires in Prometheus, with what Alertmanager inhibits. Each is read every one to three seconds. The
  seconds before the slash run from the beginning of the fault until the reader was right. Those after it run from its
  end until the reader stayed `good`, or no alert of the fault fired any more. A dash means never.
- *distrusted* is `good` next to the sentence that watchslo has a problem itself, which the metric does not have.
- *otherwise* is what was said that is not right: another verdict, `good` later than 30 s after the beginning or after a
  right verdict, a relapse after the end, or an alert that should not have fired.

"""
COLUMNS = ("fault", "lasts", "right is", "page, top, metric", "alert", "otherwise")
PROFILES_HEAD = """
The shipped profiles, each with its rights and rules, for {minutes:g} healthy minutes on the same cluster, all at once,
with about fifteen changes a second, and a pod a second that is created and deleted on each watched node:

"""
PROFILE_COLUMNS = ("profile", "instances", "polls", "good", "other verdicts", "pending, then silent", "fired")
READERS = ("page", "top", "metric")


def render(played: Sequence[EpisodeFigures], profiles: Sequence[ProfileFigures], facts: Mapping[str, object]) -> str:
    """Return the text of the section; `facts` are the scrape interval, date, versions and healthy minutes."""
    parts = [HEAD.format_map(facts), night_table(played)]
    if profiles:
        parts += [PROFILES_HEAD.format_map(facts), profiles_table(profiles)]
    return "".join(parts)


def night_table(played: Sequence[EpisodeFigures]) -> str:
    """Return the table of the faults."""
    return table(COLUMNS, (_cells(one) for one in played))


def profiles_table(profiles: Sequence[ProfileFigures]) -> str:
    """Return the table of the profiles."""
    return table(PROFILE_COLUMNS, (_profile_cells(one) for one in profiles))


def _cells(shown: EpisodeFigures) -> Iterator[str]:
    yield f"**{shown.episode.name}**: {shown.episode.words}"
    yield f"{shown.episode.seconds:.0f} s"
    alerts = named_alerts(required(shown.episode)) or "no alert"
    yield f"{', '.join(sorted(shown.episode.expected.verdicts))}; {alerts}"
    yield _verdict_cell([shown.verdicts.get(reader) for reader in READERS])
    yield _alert_cell(shown.firing, shown.notified)
    yield _inert("; ".join(shown.missed())) or "nothing"


def _verdict_cell(readers: Sequence[VerdictFigures | None]) -> str:
    right = ", ".join(_seconds(shown.right_after if shown else None) for shown in readers)
    good = ", ".join(_seconds(shown.recovered_after if shown else None) for shown in readers)
    before = ", ".join(dict.fromkeys(shown.before for shown in readers if shown and shown.before != GOOD))
    return f"{right} s / {good} s" + (f" (before: {before})" if before else "")


def _alert_cell(firing: AlertFigures, notified: AlertFigures) -> str:
    if not firing.fired:
        return "none"
    names = ", ".join(dict.fromkeys(alert.name for alert in sort(firing.fired)))
    inhibited = ", ".join(dict.fromkeys(alert.name for alert in sort(firing.fired - notified.fired)))
    seconds = f"{_seconds(firing.right_after)} s / {_seconds(firing.resolved_after)} s"
    return f"{names}: {seconds}" + (f" (inhibited: {inhibited})" if inhibited else "")


def _profile_cells(shown: ProfileFigures) -> Iterator[str]:
    yield shown.profile
    yield str(shown.instances)
    yield f"{shown.polls:,}"
    yield f"{shown.shares.get(GOOD, 0.0):.1%}"
    others = [
        f"{word} {share:.1%}: {shown.texts.get(word, '')}" for word, share in shown.shares.items() if word != GOOD
    ]
    yield _inert("; ".join(others)) or "none"
    yield ", ".join(sorted(shown.pending)) or "none"
    yield ", ".join(sorted(shown.fired)) or "none"


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.0f}"


def _inert(text: str) -> str:
    """Return a text that cannot end a cell of a table."""
    return text.replace("|", "\\|").replace("\n", " ")
