"""The dashboards as code; `make dashboards` writes them to `dashboards/`."""
