"""Writes what the documentation can take from the code: the reference, and a drawing."""
