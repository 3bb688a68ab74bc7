"""Reads what programs say of their informers, and compares it with our watches; `watchslo.informer` judges.

It may use the watches, their clocks and their protocol. The watch set calls it.
"""
