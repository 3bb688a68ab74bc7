"""Watches whole objects to see when controllers act; `watchslo.reaction` finds and dates the reactions.

It may use the watches, their clocks and their protocol. The watch set calls it.
"""
