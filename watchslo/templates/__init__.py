"""The HTML of pages and reports: Jinja2 templates, which escape every text that they are given.

A template gets values and makes no decision but how they look; `serve` and `report` fill them in.
"""

from jinja2 import Environment, PackageLoader, StrictUndefined, Template

_ENVIRONMENT = Environment(
    loader=PackageLoader(__name__, "."),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
)


def template(name: str) -> Template:
    """Return the template in the file of this name."""
    return _ENVIRONMENT.get_template(name)
