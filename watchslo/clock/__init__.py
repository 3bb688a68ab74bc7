"""Clocks that date revisions and creations, without I/O: values and times in, values out."""
