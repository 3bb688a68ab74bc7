"""Takes pictures of the dashboards in Perses from the data of a Prometheus; `make pictures` runs it."""
