"""How the instances of one cluster share the ticks, so that each apiserver gets as many as from a single instance."""

from math import ceil


def sharing_instances(ticked: int, watched: int, shards: int) -> int:
    """Return how many instances share the ticks of each apiserver, if this is known to one of them.

    An instance ticks through `ticked` apiservers. If it watches only some of them, other instances are assumed to watch
    the others and to tick as well. Each of the `shards` of a configuration ticks too. The ticks of one instance are
    never fewer than those of an instance with a single apiserver, because its own clock is all that it measures by.
    """
    return max(1, min(ticked, shards * ceil(ticked / watched)))
