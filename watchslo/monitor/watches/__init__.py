"""A watch that runs: its session, its statistics, and the watch of whole objects next to it.

Each part owns its state; `watch_set` opens and closes watches, `assignment` and `checks` read them.
"""
