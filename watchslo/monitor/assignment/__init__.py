"""Which clock dates which watch: where ticks are sent, which storages there are, and what is cached.

It reads watches and owns the clocks; `watch_set` runs it.
"""
