"""From statements to figures: how soon each reader learned of a fault and of its end, and what was wrong. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import inf

from tests.lab.expected import ExpectedAlert, OnCall
from tests.lab.statements import DISTRUSTED, GOOD, NO_ANSWER, FiringAlert, Record, Statement

NOTICED_SECONDS = 30.0  # from the beginning of a fault: later than this, no reader may say `good`
WELL = frozenset({GOOD, DISTRUSTED})  # no watch is late
LINGER_SECONDS = 600.0  # a burn rate reads 5m, waits for 2m and is evaluated each 1m, so it may fire after its fault


@dataclass(frozen=True, slots=True)
class Episode:
    """One fault as it was made: `began`, `ended` and `until`, the beginning of the next fault, are monotonic seconds.

    `apiservers` are the names of those that the fault concerns; empty if alerts may name any.
    """

    name: str
    words: str
    expected: OnCall
    began: float
    ended: float
    until: float
    apiservers: frozenset[str] = frozenset()

    @property
    def seconds(self) -> float:
        return self.ended - self.began


@dataclass(frozen=True, slots=True)
class VerdictFigures:
    """What one reader of verdicts was shown.

    `right_after` is in seconds from the beginning of the fault, `recovered_after` from its end to the `good` after
    which nothing else was said; None if that did not happen. `otherwise` are the words that are neither right nor said
    before, with the seconds for which they were said; `good_seconds` is how long `good` was said too late, or after a
    right word, while the fault lasted. `relapses` counts the returns from `good` to another word after the end, if the
    fault was known by then: it may be shorter than the time until it is noticed.
    """

    before: str
    right_after: float | None
    text: str
    recovered_after: float | None
    otherwise: Mapping[str, float] = field(default_factory=dict)
    good_seconds: float = 0.0
    relapses: int = 0


@dataclass(frozen=True, slots=True)
class AlertFigures:
    """What was alerted on: the expected alerts fired `right_after` seconds, and were all over `resolved_after` the end.

    None means that it did not happen. `before` fired already at the beginning; `fired` began to fire, and `wrong` of
    these may not.
    """

    before: frozenset[FiringAlert]
    right_after: float | None
    resolved_after: float | None
    fired: frozenset[FiringAlert]
    wrong: frozenset[FiringAlert]


@dataclass(frozen=True, slots=True)
class EpisodeFigures:
    """The figures of one fault; `verdicts` by reader, without readers that never got an answer in the whole night."""

    episode: Episode
    verdicts: Mapping[str, VerdictFigures]
    firing: AlertFigures
    notified: AlertFigures

    def missed(self) -> Iterator[str]:
        """Yield a sentence for each thing that was wrong, without a final stop."""
        for reader, shown in self.verdicts.items():
            yield from _missed_verdict(reader, shown)
        for kind, alerted in (("Prometheus", self.firing), ("Alertmanager", self.notified)):
            if alerted.right_after is None and required(self.episode):
                yield f"{kind} did not raise {named_alerts(required(self.episode))}"
            yield from (f"{kind} raised {alert.name} {alert.apiserver}".rstrip() for alert in sort(alerted.wrong))


def figures(record: Record, episode: Episode, earlier: Sequence[Episode] = ()) -> EpisodeFigures:
    """Return the figures of one fault; alerts that `earlier` faults allow may still begin to fire."""
    verdicts = {
        reader: verdict_figures(statements, episode)
        for reader, statements in record.verdicts.items()
        if any(statement.word != NO_ANSWER for statement in statements)
    }
    firing = [(statement.at, statement.firing) for statement in record.alerts]
    notified = [(statement.at, statement.notified) for statement in record.alerts]
    return EpisodeFigures(
        episode,
        verdicts,
        firing=alert_figures(firing, episode, earlier, silent=True),
        notified=alert_figures(notified, episode, earlier, silent=False),
    )


def verdict_figures(statements: Sequence[Statement], episode: Episode) -> VerdictFigures:
    """Return what one reader was shown around a fault."""
    earlier = [statement for statement in statements if statement.at < episode.began]
    before = earlier[-1].word if earlier else NO_ANSWER
    during = [statement for statement in statements if episode.began <= statement.at < episode.ended]
    after = [statement for statement in statements if episode.ended <= statement.at < episode.until]
    right_words, tolerated = episode.expected.verdicts, episode.expected.tolerated
    right = next((one for one in (*during, *after) if one.word in right_words), None)
    lasted = list(_lasted(during, episode.ended))
    noticed = min(episode.began + NOTICED_SECONDS, right.at if right else inf)
    otherwise: dict[str, float] = {}
    for statement, seconds in lasted:
        if statement.word not in right_words | tolerated | WELL | {before}:
            otherwise[statement.word] = otherwise.get(statement.word, 0.0) + seconds
    return VerdictFigures(
        before=before,
        right_after=right.at - episode.began if right else None,
        text=right.text if right else "",
        recovered_after=_recovered(after, episode.ended),
        otherwise=otherwise,
        good_seconds=sum(
            statement.at + seconds - max(statement.at, noticed)
            for statement, seconds in lasted
            if statement.word == GOOD and GOOD not in right_words | tolerated and statement.at + seconds > noticed
        ),
        relapses=sum(
            one.word in WELL and other.word not in WELL for one, other in pairwise(after) if one.at >= noticed
        ),
    )


def alert_figures(
    statements: Sequence[tuple[float, frozenset[FiringAlert]]],
    episode: Episode,
    earlier: Sequence[Episode] = (),
    *,
    silent: bool,
) -> AlertFigures:
    """Return which alerts fired in the time of a fault, and until the next; they may resolve later than that.

    With `silent`, alerts that must not notify may fire.
    """
    blamed = [episode, *(other for other in earlier if other.ended + LINGER_SECONDS > episode.began)]
    before = next((alerts for at, alerts in reversed(statements) if at < episode.began), frozenset())
    within = [(at, alerts) for at, alerts in statements if episode.began <= at < episode.until]
    fired = frozenset[FiringAlert]().union(*(alerts for _, alerts in within)) - before
    expected = required(episode)
    raised = next(
        (at for at, alerts in within if expected and all(_raised(one, alerts, episode) for one in expected)), None
    )
    firing_last = [at for at, alerts in statements if at >= episode.began and alerts & fired]
    over = next((at for at, alerts in statements if firing_last and at > firing_last[-1]), None)
    return AlertFigures(
        before=before,
        right_after=None if raised is None else raised - episode.began,
        resolved_after=None if over is None else max(0.0, over - episode.ended),
        fired=fired,
        wrong=frozenset(alert for alert in fired if not any(_allowed(alert, other, silent) for other in blamed)),
    )


def required(episode: Episode) -> tuple[ExpectedAlert, ...]:
    """Return the alerts that a fault of this duration must raise."""
    return tuple(alert for alert in episode.expected.alerts if alert.after <= episode.seconds)


def shares(statements: Sequence[Statement]) -> dict[str, float]:
    """Return the share of each word in all statements, the most frequent first."""
    words = [statement.word for statement in statements]
    counted = {word: words.count(word) / len(words) for word in dict.fromkeys(words)}
    return dict(sorted(counted.items(), key=lambda item: -item[1]))


def named_alerts(alerts: Sequence[ExpectedAlert]) -> str:
    """Return expected alerts as words."""
    return ", ".join(" or ".join(sorted(alert.names)) for alert in alerts)


def sort(alerts: frozenset[FiringAlert]) -> list[FiringAlert]:
    """Return alerts by name and apiserver."""
    return sorted(alerts, key=lambda alert: (alert.name, alert.apiserver))


def _missed_verdict(reader: str, shown: VerdictFigures) -> Iterator[str]:
    if shown.right_after is None:
        yield f"{reader} never said a right verdict"
    if shown.good_seconds:
        yield f"{reader} said good for {shown.good_seconds:.0f} s during the fault"
    yield from (f"{reader} said {word} for {seconds:.0f} s" for word, seconds in shown.otherwise.items())
    if shown.recovered_after is None:
        yield f"{reader} did not return to good"
    if shown.relapses:
        yield f"{reader} left good {shown.relapses} times after the end"


def _lasted(statements: Sequence[Statement], end: float) -> Iterator[tuple[Statement, float]]:
    """Yield each statement with the seconds until the next one, or until `end`."""
    ends = [*(one.at for one in statements), end][1:]
    for statement, until in zip(statements, ends, strict=True):
        yield statement, until - statement.at


def _recovered(after: Sequence[Statement], ended: float) -> float | None:
    """Return the seconds from the end of a fault to the first of the last unbroken run of `good`."""
    recovered: float | None = None
    for statement in after:
        if statement.word not in WELL:
            recovered = None
        elif recovered is None:
            recovered = statement.at - ended
    return recovered


def _raised(expected: ExpectedAlert, alerts: frozenset[FiringAlert], episode: Episode) -> bool:
    return any(alert.name in expected.names and _here(alert, episode) for alert in alerts)


def _allowed(alert: FiringAlert, episode: Episode, silent: bool) -> bool:  # noqa: FBT001 - private
    expected = episode.expected
    names = expected.allowed.union(*(one.names for one in expected.alerts), expected.silenced if silent else ())
    return alert.name in names and _here(alert, episode)


def _here(alert: FiringAlert, episode: Episode) -> bool:
    return not alert.apiserver or not episode.apiservers or alert.apiserver in episode.apiservers
