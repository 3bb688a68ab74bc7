"""What else is found out about watches: audits, probes of caches and of headroom, comparisons, silent apiservers.

It reads watches and sends requests of its own, within their limits; `watch_set` and the supervisor run it.
"""
