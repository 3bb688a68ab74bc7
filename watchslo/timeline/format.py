"""Text for people: durations, times, counts and lists of names. Pure."""

import math
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

ABSENT = "–"  # noqa: RUF001 - typography
ROUNDED_TO_SECONDS = 0.9995  # from here on, three digits would print 1000 ms
WHOLE_SECONDS = 99.95
MINUTE = 60.0  # seconds
NAMED = 3  # names in one sentence; the table has all of them


def duration(seconds: float) -> str:
    """Return three digits and a unit: `0.85 ms`, `12.3 ms`, `1.25 s`, `128 s`."""
    if math.isinf(seconds):
        return "∞"
    if seconds < ROUNDED_TO_SECONDS:
        return f"{1000 * seconds:.3g} ms"
    return f"{seconds:.3g} s" if seconds < WHOLE_SECONDS else f"{seconds:.0f} s"


def duration_text(seconds: float | None) -> str:
    """Return a duration, or a dash if it is unknown."""
    return ABSENT if seconds is None else duration(seconds)


def estimated(seconds: float, *, rough: bool) -> str:
    """Return the duration; with two digits and marked if it is rough: `~12 ms`, `~380 ms`."""
    return f"~{duration(float(f'{seconds:.2g}'))}" if rough else duration(seconds)


def percentile(q: float) -> str:
    """Return the name of a quantile: `P99`, `P99.9`."""
    return f"P{100 * q:.6g}"


def common_percentile(qs: Iterable[float]) -> str:
    """Return the name of the only quantile, `Quantile` if there are several, or `P99` without any."""
    names = {percentile(q) for q in qs} or {"P99"}
    return names.pop() if len(names) == 1 else "Quantile"


def moment(wall: float) -> str:
    """Return date and time in UTC, without the time zone."""
    return datetime.fromtimestamp(wall, UTC).strftime("%Y-%m-%d %H:%M:%S")


def minute_of_day(wall: float, now_wall: float) -> str:
    """Return `14:02 UTC`, with the date if it is another day."""
    then, now = datetime.fromtimestamp(wall, UTC), datetime.fromtimestamp(now_wall, UTC)
    return f"{then:%H:%M} UTC" if then.date() == now.date() else f"{then:%Y-%m-%d %H:%M} UTC"


def since(wall: float, now_wall: float) -> str:
    """Return `since 14:02 UTC`, with the date if it is another day."""
    return f"since {minute_of_day(wall, now_wall)}"


def lasting(seconds: float) -> str:
    """Return a long duration in its two largest units: `40 s`, `12 min`, `3 h 5 min`, `2 d 4 h`."""
    if seconds < MINUTE:
        return f"{seconds:.0f} s"
    minutes = int(seconds // MINUTE)
    (days, hours), minutes = divmod(minutes // 60, 24), minutes % 60
    parts = [f"{days} d", f"{hours} h"] if days else [f"{hours} h", f"{minutes} min"]
    return " ".join(part for part in parts if not part.startswith("0 "))


def counted(count: int, noun: str) -> str:
    """Return the count with its noun: `1 watch`, `16 watches`, `4,210 events`."""
    plural = f"{noun}es" if noun.endswith("ch") else f"{noun}s"
    return f"{count:,} {noun if count == 1 else plural}"


def some_of(names: Sequence[str]) -> str:
    """Return `a, b and c`; for more names `a, b, c and 2 more`."""
    more = len(names) - NAMED
    *first, last = names if more <= 0 else (*names[:NAMED], f"{more:,} more")
    return f"{', '.join(first)} and {last}" if first else last


def part_note(part: str | None, elsewhere: int) -> str:
    """Return a sentence for an instance that measures only a part; `elsewhere` counts the watches of other shards."""
    if part is None:
        return ""
    verb = "runs" if elsewhere == 1 else "run"
    others = f"; {counted(elsewhere, 'watch')} {verb} on other shards" if elsewhere else ""
    return f"Only {part} is shown here{others}."


def printable(text: str) -> str:
    """Return the text without control characters, which a terminal would obey."""
    return "".join(character if character.isprintable() else "?" for character in text)
