"""Golden transcripts: named states, and below each what is said about it."""

from collections.abc import Iterable, Mapping


def transcript(states: Mapping[str, Iterable[str]]) -> str:
    """Return each state as a heading, with its lines below and without spaces at their ends."""
    return "\n".join(
        "\n".join((f"# {state}", *(line.rstrip() for line in lines), "")) for state, lines in states.items()
    )
