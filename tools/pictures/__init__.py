"""Pictures of the dashboards, drawn from what a real Prometheus answers; `make pictures` draws them."""
