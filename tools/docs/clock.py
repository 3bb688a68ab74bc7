"""The drawing of the revision clock: how two ticks bound the commit of an event."""

WIDTH, HEIGHT = 760, 280
LINE = 120  # the height of the time axis
FIRST, SECOND, EVENT = (120, 160), (400, 440), 625  # request and answer of two ticks, arrival of the event
STYLE = """
  text { font: 14px sans-serif; fill: #24292f }
  .quiet { fill: #57606a }
  .time { stroke: #57606a; stroke-width: 1.5 }
  .tick { fill: #0969da; fill-opacity: .25; stroke: #0969da }
  .commit { fill: #1a7f37; fill-opacity: .2; stroke: #1a7f37; stroke-dasharray: 5 3 }
  .late { stroke: #bc4c00; stroke-width: 2 }
  .event { fill: #bc4c00 }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3 }
    .quiet { fill: #9198a1 }
    .time { stroke: #9198a1 }
    .tick { fill: #4493f8; stroke: #4493f8 }
    .commit { fill: #3fb950; stroke: #3fb950 }
    .late { stroke: #f0883e }
    .event { fill: #f0883e }
  }
"""


def drawing() -> str:
    """Return the drawing as SVG, readable on light and dark pages."""
    parts = [
        _line(40, WIDTH - 30, LINE, "time"),
        _text(WIDTH - 30, LINE + 20, "our clock →", "quiet", "end"),
        *_tick(FIRST, "s₁", "e₁", "a tick: revision 100"),
        *_tick(SECOND, "s₂", "e₂", "a tick: revision 140"),
        f'<circle class="event" cx="{EVENT}" cy="{LINE}" r="7"/>',
        _text(EVENT, LINE - 40, "the event of revision 120 arrives", "", "middle"),
        f'<rect class="commit" x="{FIRST[0]}" y="165" width="{SECOND[1] - FIRST[0]}" height="26" rx="4"/>',
        _text((FIRST[0] + SECOND[1]) / 2, 183, "120 was committed after s₁ and before e₂", "", "middle"),
        _line(SECOND[1], EVENT, 222, "late"),
        _text((SECOND[1] + EVENT) / 2, 216, "at least this late", "", "middle"),
        _line(FIRST[0], EVENT, 256, "late"),
        _text((FIRST[0] + SECOND[1]) / 2, 250, "at most this late", "", "middle"),
        *(f'<line class="time" stroke-dasharray="2 4" x1="{x}" y1="{LINE}" x2="{x}" y2="256"/>' for x in _guides()),
    ]
    title = "Two ticks bound the commit of a revision, and so the latency of its event"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{title}">\n'
        f"<title>{title}</title>\n<style>{STYLE}</style>\n" + "\n".join(parts) + "\n</svg>\n"
    )


def _guides() -> tuple[int, int, int]:
    return FIRST[0], SECOND[1], EVENT


def _tick(span: tuple[int, int], sent: str, answered: str, label: str) -> list[str]:
    begin, end = span
    return [
        f'<rect class="tick" x="{begin}" y="{LINE - 14}" width="{end - begin}" height="28" rx="3"/>',
        _text(begin, LINE - 22, sent, "", "middle"),
        _text(end, LINE - 22, answered, "", "middle"),
        _text((begin + end) / 2, LINE - 52, label, "", "middle"),
    ]


def _line(begin: float, end: float, height: float, kind: str) -> str:
    return f'<line class="{kind}" x1="{begin}" y1="{height}" x2="{end}" y2="{height}"/>'


def _text(x: float, y: float, words: str, kind: str, anchor: str) -> str:
    return f'<text class="{kind}" x="{x:g}" y="{y:g}" text-anchor="{anchor}">{words}</text>'
