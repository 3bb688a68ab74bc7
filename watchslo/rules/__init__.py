"""Prometheus recording rules and alerts for the objectives of a configuration, as plain data."""
