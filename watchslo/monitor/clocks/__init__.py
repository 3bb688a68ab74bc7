"""The revision clocks: ticks through each apiserver, and events that are measured once a later tick vouches for them.

It knows events and ticks, but no watch as a whole; `assignment` decides which clock dates which watch.
"""
