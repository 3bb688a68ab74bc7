"""Reactions: how long after a change was asked for its controller acted, from commit to commit. Pure.

Both changes are events that this process receives, so the revision clock dates both. `monitor/reactions` runs the
watches of whole objects and passes what they deliver to these trackers.
"""
