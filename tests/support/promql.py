"""Parse which series and labels a PromQL expression names; promtool checks everything else."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

_TOKEN = re.compile(
    r"""
      (?P<skip> \s+ | \#[^\n]* | \[[^\]]*\] )                  # also ranges: [5m], [$__rate_interval]
    | (?P<text> "(?:\\.|[^"\\])*" | '(?:\\.|[^'\\])*' )
    | (?P<number> \.?\d[\w.]* | \$\w+ | \$\{[^}]*\} )             # a dashboard's variable stands for a number
    | (?P<name> [a-zA-Z_][\w:]* )
    | (?P<operator> =~ | !~ | != | == | <= | >= | [-+*/%^<>={}(),@] )
    """,
    re.VERBOSE,
)
_GROUPING = frozenset({"by", "without", "on", "ignoring", "group_left", "group_right"})
_KEYWORDS = _GROUPING | {"and", "or", "unless", "bool", "offset", "inf", "Inf", "nan", "NaN", "start", "end", "atan2"}
_AGGREGATIONS = frozenset(
    {"sum", "min", "max", "avg", "group", "count", "count_values", "stddev", "stdvar", "bottomk", "topk", "quantile"}
)
_CREATES_LABELS = frozenset({"label_replace", "label_join", "count_values"})


@dataclass(frozen=True, slots=True)
class Matcher:
    """One condition of a selector, such as `verdict="bad"`."""

    label: str
    operator: str
    value: str


@dataclass(slots=True)
class Query:
    """The names in an expression: series, labels for grouping or matching, kept labels, and created labels."""

    selectors: list[tuple[str, list[Matcher]]] = field(default_factory=list)
    grouping: set[str] = field(default_factory=set)
    kept: set[str] = field(default_factory=set)
    created: set[str] = field(default_factory=set)


class NotPromqlError(ValueError):
    """The text is not PromQL."""


def read(expression: str) -> Query:
    """Return the selectors and groupings of an expression, without further checks (promtool does them)."""
    query = Query()
    tokens = list(_tokens(expression))
    at = 0
    while at < len(tokens):
        kind, text = tokens[at]
        follows = tokens[at + 1][1] if at + 1 < len(tokens) else ""
        at += 1
        if text in _CREATES_LABELS and follows == "(":
            query.created |= {said[1:-1] for what, said in tokens[at:] if what == "text"}
        if text in _GROUPING and follows == "(":
            end = _closing(tokens, at)
            labels = {said for what, said in tokens[at:end] if what == "name"}
            query.grouping |= labels
            if text == "by":
                query.kept |= labels
            at = end
        elif text == "{":
            raise NotPromqlError(f"{expression}: selects by no name")
        elif kind == "name" and text not in _KEYWORDS and text not in _AGGREGATIONS and follows != "(":
            matchers: list[Matcher] = []
            if follows == "{":
                end = _closing(tokens, at)
                matchers = _matchers(tokens[at + 1 : end])
                at = end + 1
            query.selectors.append((text, matchers))
    return query


def _tokens(expression: str) -> Iterator[tuple[str, str]]:
    at = 0
    while at < len(expression):
        match = _TOKEN.match(expression, at)
        if match is None:
            raise NotPromqlError(f"{expression}: {expression[at:]!r} is no PromQL")
        at = match.end()
        if match.lastgroup != "skip":
            yield str(match.lastgroup), match[0]


def _closing(tokens: list[tuple[str, str]], opening: int) -> int:
    """Return the place where the brace or parenthesis at `opening` is closed; they are not nested."""
    ends = {"{": "}", "(": ")"}[tokens[opening][1]]
    for at in range(opening, len(tokens)):
        if tokens[at] == ("operator", ends):
            return at
    raise NotPromqlError(f"a {tokens[opening][1]} is not closed")


def _matchers(tokens: list[tuple[str, str]]) -> list[Matcher]:
    """Return the matchers among the tokens between two braces."""
    texts = [text for _, text in tokens if text != ","]
    if len(texts) % 3:
        raise NotPromqlError(f"{texts} are no matchers")
    return [
        Matcher(label, operator, value[1:-1].replace(r"\\", "\\"))
        for label, operator, value in zip(texts[::3], texts[1::3], texts[2::3], strict=True)
    ]
