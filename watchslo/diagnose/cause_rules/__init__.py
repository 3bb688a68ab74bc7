"""The cause rules: each looks for one cause in the evidence, and `cause_table` says in which order.

A file for each part of the way of an event; a rule reads evidence and changes nothing.
"""
