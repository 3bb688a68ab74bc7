"""Builds what a release consists of, with the same bytes each time."""
