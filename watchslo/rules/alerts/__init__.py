"""Alerts on late events, apiservers and watchslo itself: a file for each group of them, with the group's name.

The annotations name the worst watch or instance. A problem that only one instance sees may be its own. So an alert
about an apiserver needs more than half of the instances that watch there, unless one instance can prove the problem.
With `mode: node` every instance can; alerts on metrics that such instances do not expose are left out.
"""
