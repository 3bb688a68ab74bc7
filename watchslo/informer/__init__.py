"""Informers of other programs: how old their caches are, by the revisions that they export and our own watches. Pure.

`monitor/informers` reads the pages of the programs and passes them to an `InformedClient` each, with what our watches
have delivered.
"""
