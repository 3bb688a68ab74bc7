"""Checks the words of the repository: spelling, plain English, and the form of commit subjects."""
