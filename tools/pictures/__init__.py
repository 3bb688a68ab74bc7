"""Draws pictures of the dashboards from the data of a Prometheus; `make pictures` runs it."""
