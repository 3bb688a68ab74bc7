"""watchslo: how late are the watch events of a Kubernetes cluster?"""

from importlib.metadata import version

__version__ = version("watchslo")
