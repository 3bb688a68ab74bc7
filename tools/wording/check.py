"""The rules for words: a table of phrases with their better wording, and the form of a commit subject."""

import re
from collections.abc import Iterator
from pathlib import PurePath

PHRASES = {
    "told": "say who informs whom: reported, noted, passed to, configured",
    "anew": "again",
    "nobody": "no client, no task, nothing: name the subject",
    "somebody": "name the subject: a user, another process, a client",
    "everybody": "all users, all clients, all watches",
    "anybody": "any user, any client",
    "whoever": "name the subject: the caller, the client, the user",
    "whom": "name the subject and use an active verb",
    "beside": "next to, in addition to, or in parallel with",
    "meanwhile": "while it waits, in the meantime: name the period",
    "becomes? of": "what happens to",
    "comes of": "results from",
    "what of": "name the subject",
    "by and by": "gradually",
    "at the door": "at the entry point",
    "goes on": "continues",
    "go on": "continue",
    "of late(?! (?:events|ticks|watches))": "recently",  # "late events" has the other meaning
    "surely": "certainly, proven, or leave it out",
    "hold up": "block, delay",
    "in vain": "without an answer",
    "lest": "so that ... not",
    "mend(?:s|ed|ing)?": "fix, repair",
    "reckon(?:s|ed)?": "estimate, compute",
    "be it": "for example",
    "as far as": "if known",
    "whereabouts": "location",
    "for good": "permanently",
    "ought": "should",
    "p99 surely in": "P99 bounds",
}
"""Regular expressions of what to avoid, with what to write instead."""

PERSONS = frozenset({"people", "person", "user", "users", "operator", "operators", "engineer", "engineers", "readers"})
SKIPPED_FILES = ("tools/wording/check.py", "tests/unit/tools/test_wording.py", "LICENSE", "CODE_OF_CONDUCT.md")
SKIPPED_FOLDERS = ("tests/golden/", "watchslo/serve/page/static/uplot/")
SUFFIXES = frozenset({".py", ".md", ".js", ".html", ".css", ".yaml", ".toml", ".txt", ".tpl", ".sh", ".go", ""})
LONGEST_SUBJECT = 65
"""Characters."""

_PHRASE = re.compile(
    "|".join(rf"(?P<p{k}>(?<![a-z])(?:{phrase})(?![a-z]))" for k, phrase in enumerate(PHRASES)), re.IGNORECASE
)
_WHO = re.compile(r"(?:(?P<before>[a-z]+)[ *`]+)?(?<![a-z])who(?![a-z])", re.IGNORECASE)
_SUBJECT = re.compile(r"[a-z0-9][a-z0-9_ ./,-]*: [a-z0-9`*]")


def is_checked(name: str) -> bool:
    """Return True for texts and code that people write: not for locks, licences, generated and foreign files."""
    path = PurePath(name)
    return path.suffix in SUFFIXES and name not in SKIPPED_FILES and not name.startswith(SKIPPED_FOLDERS)


def check_text(text: str) -> Iterator[str]:
    """Yield `line: "phrase": better wording` for each phrase to avoid."""
    for number, line in enumerate(text.splitlines(), start=1):
        for match in _PHRASE.finditer(line):
            better = list(PHRASES.values())[int((match.lastgroup or "p0")[1:])]
            yield f'{number}: "{match[0]}": {better}'
        for match in _WHO.finditer(line):
            if (match["before"] or "").lower() not in PERSONS:
                yield f'{number}: "who": name the subject; "who" is for people only'


def check_subject(subject: str) -> str | None:
    """Return what is wrong with a commit subject, or None."""
    if len(subject) > LONGEST_SUBJECT:
        return f"commit subject of {len(subject)} characters, {LONGEST_SUBJECT} are allowed: {subject}"
    if not _SUBJECT.match(subject):
        return f"commit subject is not of the form `area: imperative`: {subject}"
    found = next(check_text(subject), None)
    return f"commit subject: {found} (in: {subject})" if found else None
