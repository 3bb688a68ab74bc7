"""Watches, ticks, audits and probes while they run, and the tasks that run them.

Its folders are layers, from below: `tasks`, `apiservers`, `protocol`, `clocks`, `watches`, then `assignment` and
`checks`. The modules here put them together: the supervisor owns all parts, and readers get snapshots.
"""
