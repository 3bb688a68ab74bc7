"""The exit codes of commands that judge. Code 2 is left to commands that fail, as after a wrong option."""

from watchslo.timeline.verdict import Level

GOOD, BAD, UNKNOWN = 0, 1, 3
EXIT_CODES = {Level.GOOD: GOOD, Level.BAD: BAD, Level.UNKNOWN: UNKNOWN}
