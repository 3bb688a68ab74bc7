"""Starts informers with each list strategy, one after the other, measures what each costs, and recommends one.

It sends requests by `kube`, runs machines by the driver of `monitor.protocol`, and searches revisions as probes of the
headroom do. `app/rehearse.py` calls it for `watchslo rehearse`, with the console and the event that ends it.
"""
