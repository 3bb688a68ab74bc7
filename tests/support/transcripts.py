"""Transcripts: text in a golden file, in paragraphs that begin with `# ` and a title.

A transcript of states has below each title what is said about that state. In a transcript of steps, the second line
says where it begins. Each further line is something that happens, or `something -> outcome`.

In a transcript of calls, what happens is a method or an attribute of an object, with words for the arguments.
"""

import contextlib
import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

ARROW = " -> "
WIDTH = 34  # of what happens, so that outcomes are in one column
CONSTANTS = {None: "none", True: "yes", False: "no"}

Step = Callable[[str], str | None]
"""Takes a line without its outcome, and returns the outcome; None if the line has none."""
AsyncStep = Callable[[str], Awaitable[str | None]]


def of_states(states: Mapping[str, Iterable[str]]) -> str:
    """Return each state as a title, with its lines below and without spaces at their ends."""
    return "\n".join(
        "\n".join((f"# {state}", *(line.rstrip() for line in lines), "")) for state, lines in states.items()
    )


def replay(transcripts: str, begin: Callable[[str], Step]) -> str:
    """Return the transcripts with the outcomes of the present code; `begin` takes the second line of each."""
    return "\n".join(_replay(text.splitlines(), begin) for text in transcripts.split("\n\n"))


def _replay(lines: list[str], begin: Callable[[str], Step]) -> str:
    title, beginning, *steps = lines
    step = begin(beginning)
    happened = [text for line in steps if (text := line.partition(ARROW)[0].strip())]
    return "\n".join([title, beginning, *(_line(text, step(text)) for text in happened), ""])


def _line(happened: str, outcome: str | None) -> str:
    if outcome is None:
        return f"  {happened}"
    return f"  {happened:<{WIDTH}}" + f"\n  {'':<{WIDTH}}".join(ARROW + line for line in outcome.split("\n"))


async def replay_async(transcripts: str, begin: Callable[[str], Awaitable[AsyncStep]]) -> str:
    """Do the same with steps that are coroutines; return the transcripts with the outcomes."""
    outcomes = []
    for text in transcripts.split("\n\n"):
        _, beginning, *steps = text.splitlines()
        step = await begin(beginning)
        outcomes += [await step(words) for line in steps if (words := line.partition(ARROW)[0].strip())]
    following = iter(outcomes)
    return replay(transcripts, lambda _: lambda _: next(following))


def calls(subject: object, read: Callable[[str], object] | None = None) -> Step:
    """Return a step that takes an attribute, or `method word name=word ...`; `read` makes a value of a word."""
    understood = read or value

    def step(text: str) -> str | None:
        name, *words = text.split()
        member: Any = getattr(subject, name)
        if not callable(member):
            return shown(member)
        named = (word.partition("=") for word in words if "=" in word)
        found = member(
            *(understood(word) for word in words if "=" not in word),
            **{key: understood(word) for key, _, word in named},
        )
        return None if inspect.signature(member).return_annotation is None else shown(found)

    return step


def value(word: str) -> Any:
    """Return a number, `none`, `yes` or `no`, a list as `1,2` or `1,`, a range as `1..5`, or else the word itself."""
    first, is_range, last = word.partition("..")
    if is_range:
        return [*range(int(first), int(last) + 1)]
    if "," in word:
        return [value(part) for part in word.split(",") if part]
    for kind in (int, float):
        with contextlib.suppress(ValueError):
            return kind(word)
    return next((known for known, text in CONSTANTS.items() if text == word), word)


def shown(found: Any) -> str:
    """Return a value as text, with floats to a microsecond."""
    match found:
        case None | True | False:
            return CONSTANTS[found]
        case float():
            return f"{found:.6f}".rstrip("0").rstrip(".")
        case str() | int():
            return str(found)
    if is_dataclass(found):
        return " ".join(f"{field.name}={shown(getattr(found, field.name))}" for field in fields(found))
    values = (f"{key}:{shown(one)}" for key, one in found.items()) if isinstance(found, Mapping) else map(shown, found)
    return ", ".join(values) or "nothing"
