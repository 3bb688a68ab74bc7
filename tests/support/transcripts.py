"""Transcripts: text in a golden file, in paragraphs that begin with `# ` and a title.

A transcript of states has below each title what is said about that state. In a transcript of steps, the second line
says where it begins. Each further line is something that happens, or `something -> outcome`.
"""

from collections.abc import Callable, Iterable, Mapping

ARROW = " -> "
WIDTH = 34  # of what happens, so that outcomes are in one column

Step = Callable[[str], str | None]
"""Takes a line without its outcome, and returns the outcome; None if the line has none."""


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
