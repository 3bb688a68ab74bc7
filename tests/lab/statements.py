"""What watchslo said at a time, to any of its readers: values only, and how a verdict is read from them. Pure."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

GOOD = "good"
DISTRUSTED = "distrusted"
"""`good`, but next to it watchslo says that it has a problem itself."""
NO_ANSWER = "no answer"
PROBLEM = "No: watchslo itself has a problem"


@dataclass(frozen=True, slots=True)
class Statement:
    """The verdict that one reader got at a monotonic time: a word of `watchslo_verdict`, or `NO_ANSWER`."""

    at: float
    word: str
    text: str = ""


@dataclass(frozen=True, slots=True)
class FiringAlert:
    """An alert by its name, and its apiserver; empty if it has none."""

    name: str
    apiserver: str = ""


@dataclass(frozen=True, slots=True)
class AlertsStatement:
    """The alerts that fired in Prometheus at a time, and those that Alertmanager did not inhibit."""

    at: float
    firing: frozenset[FiringAlert]
    notified: frozenset[FiringAlert]


@dataclass(frozen=True, slots=True)
class Record:
    """All statements of a night, by reader; each in the order of time."""

    verdicts: Mapping[str, tuple[Statement, ...]]
    alerts: tuple[AlertsStatement, ...]


def word_in_status(status: Mapping[str, Any]) -> tuple[str, str]:
    """Return the verdict of a status document and its sentence; a document without a verdict has `starting`."""
    verdict = status.get("verdict")
    if verdict is None:
        return "starting", ""
    text = str(verdict["text"])
    trust = str((status.get("trust") or {}).get("text", ""))
    return trusted(str(verdict["verdict"]), trust), f"{text} {trust}" if PROBLEM in trust else text


def trusted(word: str, trust: str) -> str:
    """Return the verdict, or `DISTRUSTED` if it is good and the sentence of the self checks says not to trust it."""
    return DISTRUSTED if word == GOOD and PROBLEM in trust else word


def verdict_exposed(text: str) -> str:
    """Return the verdict in a text exposition, or `NO_ANSWER` if it has none."""
    found = re.search(r'^watchslo_verdict\{verdict="(\w+)"\} 1(?:\.0)?$', text, re.MULTILINE)
    return found[1] if found else NO_ANSWER
