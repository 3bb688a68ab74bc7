"""watchslo: how late are the watch events of a Kubernetes cluster?"""

from importlib.metadata import metadata

_METADATA = metadata("watchslo")
_URLS = {name: url for entry in _METADATA.get_all("Project-URL", []) for name, _, url in [entry.partition(", ")]}

__version__ = _METADATA["Version"]

DOCUMENTATION = _URLS["Documentation"].removesuffix("/README.md")
"""The address of the folder `docs`, from `[project.urls]` of pyproject.toml."""

RUNBOOKS = f"{DOCUMENTATION.replace('/main/', f'/v{__version__}/')}/runbooks"
"""The address of the runbooks of this version: alerts of an installed version lead to what fits them."""
