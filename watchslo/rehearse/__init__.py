"""Starts informers with each list strategy, one after the other, measures what each costs, and recommends one.

It sends requests by `kube`, runs machines by `monitor.driver`, and searches revisions by `monitor.oldest_revision`.
`app/rehearse.py` calls it for `watchslo rehearse`, with the console and the event that ends it; it sets up neither.
"""
