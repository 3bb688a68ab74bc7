"""Transcripts: what happens, and what the code does about that, as text in a golden file.

A transcript begins with `# ` and a sentence. Its second line says where it begins. Each further line is something that
happens, or `something -> outcome`.
"""

from collections.abc import Callable

ARROW = " -> "
WIDTH = 34  # of what happens, so that outcomes are in one column

Step = Callable[[str], str | None]
"""Takes a line without its outcome, and returns the outcome; None if the line has none."""


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
