"""The pages that `make docs` writes, by path."""

from collections.abc import Callable, Mapping

from tools.docs import clock, commands, keys, metrics, schema

PAGES: Mapping[str, Callable[[], str]] = {
    "docs/reference/configuration.md": keys.page,
    "docs/reference/watchslo.schema.json": schema.page,
    "docs/reference/cli.md": commands.page,
    "docs/metrics.md": metrics.page,
    "docs/concepts/revision-clock.svg": clock.drawing,
}
