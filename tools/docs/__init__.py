"""Generates parts of the documentation from the code: the reference pages and a drawing."""
