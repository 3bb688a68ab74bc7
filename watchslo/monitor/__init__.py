"""Watches, ticks, audits and probes while they run, and the tasks that run them."""
